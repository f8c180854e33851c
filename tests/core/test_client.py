"""The client against a real server: answers, errors by status, dropped connections, patience."""

import errno
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import pytest

from ddlp.core import errors
from ddlp.core.client import Client
from ddlp.core.errors import DdlpError, InvalidInput, Unavailable
from ddlp.core.messages import Lease

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers as the test says, and notes what it was asked."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet an answer
    server: "Server"

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.server.asked.append((self.command, self.path, self.rfile.read(length)))
        self.server.answer(self)

    do_POST = do_GET  # noqa: N815
    do_DELETE = do_GET  # noqa: N815

    def reply(self, body: bytes = b"{}", status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A server on a free port, in a thread."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answer: Answer = Handler.reply
        self.connections = 0
        self.asked: list[tuple[str, str, bytes]] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    """Leaves before the server does, which waits for its connections to end."""
    with Client(server.url, timeout_s=5, patience_s=5) as connected:
        yield connected


def test_an_answer_is_its_json(server: Server, client: Client) -> None:
    server.answer = lambda handler: handler.reply(b'{"runs": [1, null]}')
    assert client.get("/runs") == {"runs": [1, None]}
    assert server.asked == [("GET", "/api/v1/runs", b"")]


def test_no_answer_is_none(server: Server, client: Client) -> None:
    server.answer = lambda handler: handler.reply(b"", status=204)
    assert client.post("/runs/r50/cancel") is None


def test_a_post_carries_a_message_a_mapping_or_nothing(server: Server, client: Client) -> None:
    lease = Lease(run="00000000-0000-0000-0000-000000000001", epoch=0, index=2, token=3)  # type: ignore[arg-type]
    for body in (lease, {"name": "ä"}, None):
        client.post("/x", body)
    sent = [json.loads(raw) for _, _, raw in server.asked]
    assert sent == [lease.model_dump(mode="json"), {"name": "ä"}, {}]


def test_something_is_removed(server: Server, client: Client) -> None:
    assert client.delete("/datasets/x") == {}
    assert server.asked == [("DELETE", "/api/v1/datasets/x", b"")]


def test_a_download_is_its_bytes_and_a_failure_still_an_error(
    server: Server, client: Client
) -> None:
    server.answer = lambda handler: handler.reply(b"\x89PNG")
    assert client.download("/sheet.png") == b"\x89PNG"
    server.answer = lambda handler: handler.reply(b'{"detail": "no such sample"}', status=404)
    with pytest.raises(errors.NotFound, match="no such sample"):
        client.download("/sheet.png")


def test_a_server_below_a_path_is_reached(server: Server) -> None:
    with Client(f"{server.url}/ddlp/") as client:
        client.get("/runs")
    assert server.asked[0][1] == "/ddlp/api/v1/runs"


def test_odd_names_are_quoted_and_questions_are_kept(server: Server, client: Client) -> None:
    client.get("/runs/ä b/series?since=3&step=2")
    assert server.asked[0][1] == "/api/v1/runs/%C3%A4%20b/series?since=3&step=2"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (403, errors.NotAllowed),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (415, errors.Unsupported),
        (422, errors.InvalidInput),
        (500, DdlpError),
        (504, errors.WaitTimeout),
    ],
)
def test_an_error_is_raised_by_its_status_with_the_servers_words(
    server: Server, client: Client, status: int, kind: type[DdlpError]
) -> None:
    server.answer = lambda handler: handler.reply(b'{"detail": "the reason"}', status)
    with pytest.raises(kind, match=r"^the reason$") as caught:
        client.get("/runs/x")
    assert type(caught.value) is kind
    assert len(server.asked) == 1, "an answer is not asked for again"


def test_a_server_that_asks_for_patience_is_asked_again(server: Server, client: Client) -> None:
    def busy_once(handler: Handler) -> None:
        busy = len(server.asked) == 1
        handler.reply(b'{"detail": "in a moment"}' if busy else b"[]", 503 if busy else 200)

    server.answer = busy_once
    assert client.get("/runs") == []


def test_what_has_no_key_and_must_not_be_done_twice_is_not_asked_again(
    server: Server, client: Client
) -> None:
    server.answer = lambda handler: handler.reply(b'{"detail": "in a moment"}', 503)
    with pytest.raises(errors.Unavailable, match="in a moment"):
        client.delete("/runs/x")
    assert len(server.asked) == 1


def test_what_is_done_once_is_asked_again_with_the_same_key(server: Server, client: Client) -> None:
    keys: list[str | None] = []

    def busy_once(handler: Handler) -> None:
        keys.append(handler.headers["Idempotency-Key"])
        if len(keys) == 1:
            handler.reply(b'{"detail": "in a moment"}', 503)
        elif len(keys) == 2:
            handler.close_connection = True  # the answer is lost
        else:
            handler.reply(b"[]")

    server.answer = busy_once
    for _ in range(2):
        client.post("/runs", {}, once=True)
    assert len(keys) == 4
    assert None not in keys
    assert keys[0] == keys[1] == keys[2] != keys[3]
    client.post("/runs/x/pause")
    assert keys[-1] is None


def test_what_may_have_been_made_although_nobody_answers_is_said(server: Server) -> None:
    def drop(handler: Handler) -> None:
        handler.close_connection = True

    def drop_then_ask_for_patience(handler: Handler) -> None:
        if len(server.asked) < 2:
            return drop(handler)
        return handler.reply(b'{"detail": "the database is away"}', 503)

    for answer, words in ((drop, "no answer"), (drop_then_ask_for_patience, "is away")):
        server.answer = answer
        server.asked.clear()
        with Client(server.url, timeout_s=5, patience_s=0.2) as client:
            with pytest.raises(Unavailable, match=f"{words}.*; it may have been made") as error:
                client.post("/runs", {"name": "a"}, once=True)
            assert "look before" in str(error.value)
            with pytest.raises(Unavailable) as error:
                client.post("/runs/a/pause")
            assert "made" not in str(error.value)


def test_what_was_never_sent_or_is_refused_for_now_was_not_made(server: Server) -> None:
    server.answer = lambda handler: handler.reply(b'{"detail": "the database is away"}', 503)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        for url in (server.url, f"http://127.0.0.1:{free.getsockname()[1]}"):
            with Client(url, patience_s=0.1) as client, pytest.raises(Unavailable) as error:
                client.post("/runs", once=True)
            assert "made" not in str(error.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "HTTP status 502"),
        (b"<html>Bad Gateway</html>", "Bad Gateway"),
        (b'["no detail"]', "no detail"),
        (b'{"other": 1}', "other"),
        (b'{"detail": [{"msg": "Field required"}]}', "Field required"),
        (b"\xff\xfe", "�"),
    ],
)
def test_an_error_from_somewhere_in_between_is_shown_as_it_is(
    server: Server, client: Client, body: bytes, words: str
) -> None:
    server.answer = lambda handler: handler.reply(body, 502)
    with pytest.raises(DdlpError, match=words):
        client.get("/runs")


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [(307, b"", "HTTP status 307"), (302, b"<a>moved</a>", "moved"), (304, b"", "HTTP status 304")],
)
def test_being_sent_elsewhere_is_an_error_and_not_an_answer(
    server: Server, client: Client, status: int, body: bytes, words: str
) -> None:
    server.answer = lambda handler: handler.reply(body, status)
    with pytest.raises(DdlpError, match=words):
        client.get("/runs")


@pytest.mark.parametrize("body", [b"<html>hello</html>", b'{"cut": ', b"\xff\xfe"])
def test_an_answer_that_is_not_json_comes_from_another_server(
    server: Server, client: Client, body: bytes
) -> None:
    server.answer = lambda handler: handler.reply(body)
    with pytest.raises(Unavailable, match=f"{server.url} answers, but not as a DDLP server"):
        client.get("/runs")
    assert len(server.asked) == 1, "asking again would not help"


def test_one_connection_carries_many_calls_also_after_an_error(
    server: Server, client: Client
) -> None:
    def answer(handler: Handler) -> None:
        handler.reply(status=404 if handler.path.endswith("none") else 200)

    server.answer = answer
    client.get("/a")
    with pytest.raises(errors.NotFound):
        client.get("/none")
    client.post("/b", {"x": 1})
    client.get("/c")
    assert server.connections == 1


def test_a_connection_that_the_server_closed_meanwhile_is_opened_again(
    server: Server, client: Client
) -> None:
    def answer(handler: Handler) -> None:
        handler.reply(b'{"call": %d}' % len(server.asked))
        handler.close_connection = True  # without saying so, as after an idle time

    server.answer = answer
    assert [client.get("/x")["call"] for _ in range(3)] == [1, 2, 3]
    assert server.connections == 3


def test_a_kept_connection_that_went_stale_costs_no_patience(server: Server) -> None:
    def answer(handler: Handler) -> None:
        handler.reply()
        handler.close_connection = True

    server.answer = answer
    with Client(server.url, timeout_s=5, patience_s=0) as client:
        assert [client.get("/x") for _ in range(3)] == [{}, {}, {}]


def test_a_delete_is_not_sent_over_a_connection_that_went_stale(server: Server) -> None:
    def answer(handler: Handler) -> None:
        handler.reply()
        handler.close_connection = True

    server.answer = answer
    with Client(server.url, timeout_s=5, patience_s=0) as client:
        assert [client.get("/x"), client.delete("/x"), client.delete("/x")] == [{}, {}, {}]


def test_a_new_connection_that_is_dropped_is_not_tried_again_without_patience(
    server: Server,
) -> None:
    server.answer = drop
    with Client(server.url, timeout_s=5, patience_s=0) as client:
        assert_unavailable(client)
    assert len(server.asked) == 1


def test_a_kept_connection_is_opened_again_once_and_no_more(server: Server) -> None:
    with Client(server.url, timeout_s=5, patience_s=0) as client:
        client.get("/x")
        server.answer = drop
        assert_unavailable(client)
    assert len(server.asked) == 3


def test_a_closed_client_opens_again_with_the_next_call(server: Server, client: Client) -> None:
    client.get("/x")
    client.close()
    client.get("/x")
    assert server.connections == 2


def drop(handler: Handler) -> None:
    handler.close_connection = True


def test_a_call_is_repeated_until_it_is_answered(server: Server, client: Client) -> None:
    def answer(handler: Handler) -> None:
        (handler.reply if len(server.asked) == 3 else lambda: drop(handler))()

    server.answer = answer
    assert client.post("/x", {"a": 1}) == {}
    assert server.asked == [("POST", "/api/v1/x", b'{"a": 1}')] * 3


def test_a_call_that_took_too_long_is_asked_again_on_a_new_connection(server: Server) -> None:
    asked_again = threading.Event()

    def answer(handler: Handler) -> None:
        if len(server.asked) == 1:
            asked_again.wait(20)
        asked_again.set()
        handler.reply()

    server.answer = answer
    with Client(server.url, timeout_s=0.2, patience_s=20) as client:
        assert client.get("/x") == {}
    assert server.connections == len(server.asked)


def assert_unavailable(client: Client) -> None:
    with pytest.raises(Unavailable) as caught:
        client.get("/runs")
    message = str(caught.value)
    assert message.startswith(f"no answer from {client.url} (")
    assert message.endswith(
        "; start the server with: ddlp up, or set DDLP_URL or url= to its address"
    )


def test_a_server_that_drops_every_call_is_unavailable_in_the_end(server: Server) -> None:
    server.answer = drop
    with Client(server.url, patience_s=0.2) as client:
        assert_unavailable(client)
    assert len(server.asked) > 1


def test_a_server_that_is_not_there_is_unavailable_in_the_end() -> None:
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        port = nobody_listens.getsockname()[1]
        with Client(f"http://127.0.0.1:{port}", patience_s=0.2) as client:
            assert_unavailable(client)


def test_a_server_that_never_answers_is_unavailable_in_the_end(server: Server) -> None:
    enough = threading.Event()
    server.answer = lambda _: enough.wait(20) and None
    with Client(server.url, timeout_s=0.1, patience_s=0) as client:
        assert_unavailable(client)
    enough.set()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "control",
        "ftp://control",
        "http://",
        "http://host:abc",
        "http://host:99999",
        "http://host:0",
    ],
)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidInput, match="is not an address of a server; write http://HOST:PORT"):
        Client(url)


def test_what_this_process_has_run_out_of_is_not_laid_to_the_server(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(Unavailable) as caught:
        Client(server.url, patience_s=0).get("/runs")
    assert str(caught.value).startswith(f"connect of {server.url} failed with EMFILE (Too many")


def test_what_fails_here_while_an_answer_is_read_is_not_laid_to_the_server(
    server: Server, client: Client
) -> None:
    def copy() -> None:
        with client.stream("/x") as found:
            found.read(1)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        copy()
