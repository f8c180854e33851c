"""A folder served over HTTP: one batch a token, in whole or in part, and nothing else."""

import contextlib
import errno
import logging
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ddlp.core.errors import InvalidInput, Unavailable
from ddlp.core.store import FolderStore, batch_name, path_of, run_folder, served
from ddlp.core.store.served import StoreServer, access_token, new_key, parse_range
from tests.core.store.making import RUN, batch_id, files, write
from tests.core.store.serving import KEY, ask, bearer, connect, get, raw_connection


def test_a_batch_is_sent_as_it_lies_there(server: StoreServer, root: Path, batch: str) -> None:
    status, headers, raw = get(server, batch)
    assert status == 200
    assert raw == (root / batch).read_bytes()
    assert headers["Content-Length"] == str(len(raw))
    assert headers["Accept-Ranges"] == "bytes"


def test_its_address_has_the_real_port(root: Path) -> None:
    server = StoreServer(root, "http://127.0.0.1:0", KEY)
    assert server.url == "http://127.0.0.1:0"
    server.start()
    port = urlsplit(server.url).port
    assert port
    server.stop()
    again = StoreServer(root, f"http://127.0.0.1:{port}", KEY)
    again.start()
    assert again.url == f"http://127.0.0.1:{port}"
    again.stop()
    again.stop()


def test_it_listens_on_ipv6_too(root: Path, batch: str) -> None:
    server = StoreServer(root, "http://[::1]:0", KEY)
    try:
        server.start()
    except Unavailable as error:
        pytest.skip(f"no IPv6 here: {error}")
    assert server.url.startswith("http://[::1]:")
    assert get(server, batch)[0] == 200
    server.stop()


@pytest.mark.parametrize(
    "url",
    ["https://host:1", "http://host", "host:1", "http://:1", "http://h:99999", "http://h:1/x", "?"],
)
def test_an_address_that_is_none_is_said(root: Path, url: str) -> None:
    with pytest.raises(InvalidInput, match="write http://HOST:PORT"):
        StoreServer(root, url, KEY)


def test_an_address_that_is_taken_is_named(server: StoreServer, root: Path) -> None:
    with pytest.raises(Unavailable, match=f"{server.url} .*a port that is free"):
        StoreServer(root, server.url, KEY).start()


def test_a_head_says_how_large_it_is(server: StoreServer, root: Path, batch: str) -> None:
    connection = connect(server)
    for _ in range(2):  # the connection is not confused by it
        status, headers, raw = ask(connection, "HEAD", f"/{batch}", bearer(batch))
        assert (status, raw) == (200, b"")
        assert headers["Content-Length"] == str((root / batch).stat().st_size)
    connection.close()


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-4105", 10, 4106),
        ("bytes=4096-", 4096, None),
        ("bytes=-10", -10, None),
        ("bytes=-99999999", 0, None),
        ("bytes=0-99999999", 0, None),
    ],
)
def test_a_range_is_sent(
    server: StoreServer, root: Path, batch: str, asked: str, start: int, end: int | None
) -> None:
    whole = (root / batch).read_bytes()
    status, headers, raw = get(server, batch, Range=asked)
    assert status == 206
    assert raw == whole[start:end]
    first = start % len(whole)
    assert headers["Content-Range"] == f"bytes {first}-{first + len(raw) - 1}/{len(whole)}"
    assert headers["Content-Length"] == str(len(raw))


@pytest.mark.parametrize("asked", ["bytes=99999999-", "bytes=99999998-99999999", "bytes=-0"])
def test_a_range_past_the_end_is_refused(
    server: StoreServer, root: Path, batch: str, asked: str
) -> None:
    status, headers, raw = get(server, batch, Range=asked)
    assert (status, raw) == (416, b"")
    assert headers["Content-Range"] == f"bytes */{(root / batch).stat().st_size}"


@pytest.mark.parametrize(
    "asked", ["bytes=5-2", "bytes=-", "bytes=0-1,4-5", "lines=0-1", "bytes=a-b", "bytes=²-", ""]
)
def test_what_is_no_range_that_we_know_gets_the_whole(asked: str) -> None:
    assert parse_range(asked, 100) is None


def test_a_token_opens_one_batch_only(server: StoreServer, root: Path, batch: str) -> None:
    write(FolderStore(root), batch_id(index=1, token=2))
    other = batch_name(RUN, 0, 1, 2)
    assert get(server, batch)[0] == get(server, other)[0] == 200
    assert get(server, batch, **bearer(other))[0] == 403


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        (None, 401),
        ("Basic abc", 401),
        ("Bearer ", 403),
        ("Bearer wrong", 403),
        ("Bearer \xff\xfe", 403),
        (f"Bearer {access_token('another-key', batch_name(RUN, 0, 0, 1))}", 403),
        (f"Bearer {access_token(KEY, batch_name(RUN, 0, 0, 1))}0", 403),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_nothing_is_given_without_the_right_token(
    server: StoreServer, root: Path, batch: str, method: str, shown: str | None, status: int
) -> None:
    headers = {} if shown is None else {"Authorization": shown}
    connection = connect(server)
    found, answered, raw = ask(connection, method, f"/{batch}", headers)
    connection.close()
    assert (found, raw) == (status, b"")
    assert ("WWW-Authenticate" in answered) == (status == 401)
    assert (root / batch).exists()


def test_without_a_token_nobody_learns_what_is_there(server: StoreServer, batch: str) -> None:
    missing = batch_name(RUN, 0, 77, 1)
    connection = connect(server)
    assert ask(connection, "GET", f"/{missing}", {})[0] == 401
    assert ask(connection, "GET", f"/{missing}", bearer(batch))[0] == 403
    assert ask(connection, "GET", f"/{missing}", bearer(missing))[0] == 404
    connection.close()


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        batch_name(RUN, 0, 0, 1),
        f"/{run_folder(RUN)}",
        f"/{run_folder(RUN)}/",
        f"/{run_folder(RUN)}/free/00000-00000000-1",
        f"/{run_folder(RUN)}/../secret",
        f"/{run_folder(RUN)}/%2e%2e/secret",
        f"/{batch_name(RUN, 0, 0, 1)}?x=1",
        f"/{batch_name(RUN, 0, 0, 1)}/",
        f"/./{batch_name(RUN, 0, 0, 1)}",
        f"/{batch_name(RUN, 0, 0, 1)}%00",
        "/../secret",
        "/etc/passwd",
        "http://127.0.0.1/secret",
        "*",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_no_path_leads_anywhere_else(
    server: StoreServer, root: Path, batch: str, method: str, path: str
) -> None:
    (root.parent / "secret").write_bytes(b"secret")
    with raw_connection(server) as connection:
        token = access_token(KEY, path.removeprefix("/"))
        head = f"{method} {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"
        connection.sendall(f"{head}Connection: close\r\n\r\n".encode())
        answer = connection.makefile("rb").read()
    assert answer.split(b"\r\n")[0] in (b"HTTP/1.1 404 Not Found", b"HTTP/1.1 400 Bad Request")
    assert b"secret" not in answer
    assert (root / batch).exists()


def test_links_pipes_and_folders_are_no_batches(server: StoreServer, root: Path) -> None:
    secret = root.parent / "secret"
    secret.write_bytes(b"secret")
    folder = root / run_folder(RUN)
    folder.mkdir(parents=True)
    names = [batch_name(RUN, 0, index, 1) for index in range(5)]
    (root / names[0]).symlink_to(secret)
    os.mkfifo(root / names[1])
    (root / names[2]).mkdir()
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(f"{root.parent}/s")
        (root.parent / "s").rename(root / names[3])
        for name in names:
            assert get(server, name)[0] == 404, name


def test_a_folder_that_is_a_link_is_not_entered(server: StoreServer, root: Path) -> None:
    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()
    name = batch_name(RUN, 0, 0, 1)
    (elsewhere / name.split("/")[1]).write_bytes(b"secret")
    root.mkdir()
    (root / run_folder(RUN)).symlink_to(elsewhere)
    assert get(server, name)[0] == 404


def test_a_consumed_batch_gives_its_room_back(server: StoreServer, root: Path, batch: str) -> None:
    inode = (root / batch).stat().st_ino
    connection = connect(server)
    assert ask(connection, "DELETE", f"/{batch}", bearer(batch))[0] == 204
    assert ask(connection, "DELETE", f"/{batch}", bearer(batch))[0] == 404
    assert ask(connection, "GET", f"/{batch}", bearer(batch))[0] == 404
    connection.close()
    assert files(root) == [f"{run_folder(RUN)}/free/00000-00000000-1"]
    stored = write(FolderStore(root), batch_id(index=1, token=2))
    assert path_of(stored.location).stat().st_ino == inode


def test_one_connection_serves_many_requests(server: StoreServer, root: Path, batch: str) -> None:
    connection = connect(server)
    connection.connect()
    first = connection.sock
    for _ in range(20):
        assert len(ask(connection, "GET", f"/{batch}", bearer(batch))[2]) > 0
        assert ask(connection, "GET", "/nothing", {})[0] == 404
    assert connection.sock is first
    connection.close()


@pytest.mark.parametrize(
    "request_head",
    [
        "POST /x HTTP/1.1\r\nContent-Length: 0",
        "PUT /{name} HTTP/1.1\r\nContent-Length: 3",
        "GET /{name} HTTP/1.1\r\nContent-Length: 40",
        "GET /{name} HTTP/1.1\r\nTransfer-Encoding: chunked",
        "GET /{name}",
        "GET /{name} HTTP/9.9",
        "nonsense",
        "GET /{name} HTTP/1.1\r\n" + "x: y\r\n" * 200,
        "GET /" + "x" * 70_000 + " HTTP/1.1",
    ],
)
def test_what_is_no_request_of_ours_is_refused_and_ends_the_connection(
    server: StoreServer, batch: str, request_head: str
) -> None:
    follows = f"GET /{batch} HTTP/1.1\r\nAuthorization: {bearer(batch)['Authorization']}\r\n\r\n"
    with raw_connection(server) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(f"{request_head.format(name=batch)}\r\n\r\n{follows}".encode())
        answer = connection.makefile("rb").read()
        assert b" 200 " not in answer
        assert b"DDLPBTCH" not in answer
    assert get(server, batch)[0] == 200


def test_no_token_is_logged(
    server: StoreServer, batch: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    get(server, batch)
    get(server, batch, Authorization="Bearer wrong-token")
    assert access_token(KEY, batch) not in caplog.text
    assert "wrong-token" not in caplog.text


def test_keys_and_tokens_are_like_no_others() -> None:
    assert len({new_key() for _ in range(100)}) == 100
    assert access_token("a", "x") != access_token("a", "y") != access_token("b", "y")
    assert len(access_token("a", "x")) == 64


def test_a_host_that_may_open_no_more_files_asks_for_patience(
    server: StoreServer, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(served, "_OPEN_S", 0.01)
    with monkeypatch.context() as patched:
        patched.setattr(served, "open_batch", refuse)
        assert get(server, batch)[0] == 503
    assert get(server, batch)[0] == 200
