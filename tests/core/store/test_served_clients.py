"""Clients that vanish, stall, crawl or come in crowds do not hold up a served folder."""

import contextlib
import hashlib
import http.client
import os
import socket
import struct
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ddlp.core.store import FolderStore, batch_name
from ddlp.core.store import connections as connections_module
from ddlp.core.store import served as served_module
from ddlp.core.store.served import StoreServer
from tests.conftest import wait_until
from tests.core.store.making import RUN, batch_id, write
from tests.core.store.serving import KEY, ask, bearer, connect, get, raw_connection


def large_batch(root: Path) -> str:
    """More than fits into the buffers of a connection."""
    write(FolderStore(root), batch_id(samples=64), side=512)
    return batch_name(RUN, 0, 0, 1)


def begin(server: StoreServer, name: str, receive_bytes: int = 1000) -> socket.socket:
    """A client that asks for a batch, and reads only its beginning."""
    connection = raw_connection(server)
    connection.sendall(
        f"GET /{name} HTTP/1.1\r\nAuthorization: {bearer(name)['Authorization']}\r\n\r\n".encode()
    )
    assert connection.recv(receive_bytes)
    return connection


def test_a_client_that_vanishes_in_the_middle_is_forgotten(server: StoreServer, root: Path) -> None:
    name = large_batch(root)
    for _ in range(5):
        connection = begin(server, name)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()  # with a reset
    assert server._listener is not None
    listener = server._listener
    wait_until(lambda: len(listener.connections) == 0)
    assert get(server, name)[0] == 200


def test_a_client_that_takes_nothing_is_given_up(
    server: StoreServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_module, "_STALL_S", 0.2)
    name = large_batch(root)
    with begin(server, name):
        assert server._listener is not None
        listener = server._listener
        wait_until(lambda: len(listener.connections) == 0)


def test_a_client_that_crawls_is_given_up(
    server: StoreServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = large_batch(root)
    monkeypatch.setattr(served_module, "_STALL_S", 0.5)
    monkeypatch.setattr(served_module, "_LEAST_BYTES_PER_S", 1 << 40)
    assert server._listener is not None
    listener = server._listener
    with begin(server, name) as connection:

        def given_up() -> bool:
            connection.recv(20_000)  # always something, never enough
            return len(listener.connections) == 0

        wait_until(given_up)


def test_a_client_that_asks_for_nothing_is_sent_away(
    root: Path, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_module._Handler, "timeout", 0.2)
    server = StoreServer(root, "http://127.0.0.1:0", KEY)
    server.start()
    with raw_connection(server) as silent:
        assert silent.recv(1) == b""
    server.stop()


def test_a_file_that_is_cut_short_while_it_is_sent_ends_the_connection(
    server: StoreServer, root: Path
) -> None:
    name = large_batch(root)
    with begin(server, name) as connection:
        os.truncate(root / name, 4096)
        with contextlib.suppress(ConnectionError):
            while connection.recv(1 << 20):
                pass
    assert get(server, name)[2] == (root / name).read_bytes()


def test_a_flood_is_bounded_and_everyone_is_served(root: Path) -> None:
    most, clients = 8, 200
    write(FolderStore(root), batch_id(samples=16), side=64)
    name = batch_name(RUN, 0, 0, 1)
    right = hashlib.sha256((root / name).read_bytes()).digest()
    server = StoreServer(root, "http://127.0.0.1:0", KEY, most_connections=most)
    server.start()
    listener = server._listener
    assert listener is not None
    seen: list[int] = []

    def fetch(_: int) -> bool:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            seen.append(len(listener.connections))
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, _, raw = get(server, name)
                if status == 200:
                    return hashlib.sha256(raw).digest() == right
            time.sleep(0.05)
        return False

    with ThreadPoolExecutor(clients) as pool:
        assert all(pool.map(fetch, range(clients)))
    server.stop()
    assert max(seen) <= most


def test_those_who_wait_make_room_for_those_who_come(
    root: Path, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "_GRACE_S", 0.0)
    server = StoreServer(root, "http://127.0.0.1:0", KEY, most_connections=4)
    server.start()
    idle = [connect(server) for _ in range(4)]
    for connection in idle:
        assert ask(connection, "GET", f"/{batch}", bearer(batch))[0] == 200
    silent = [raw_connection(server) for _ in range(20)]
    assert get(server, batch)[0] == 200
    for gone in [*idle, *silent]:
        gone.close()
    server.stop()


def test_where_everyone_is_served_one_more_is_told_to_come_later(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "_PATIENCE_S", 0.1)
    name = large_batch(root)
    server = StoreServer(root, "http://127.0.0.1:0", KEY, most_connections=2)
    server.start()
    with begin(server, name), begin(server, name):
        connection = connect(server)
        try:
            status, _, _ = ask(connection, "GET", f"/{name}", bearer(name))
        except ConnectionError:  # it was gone before it was read
            status = 503
        connection.close()
        assert status == 503
    server.stop()


def test_stopping_ends_transfers_that_are_under_way(server: StoreServer, root: Path) -> None:
    name = large_batch(root)
    with begin(server, name) as connection:
        server.stop()
        with contextlib.suppress(ConnectionError):
            while connection.recv(1 << 20):
                pass


def test_a_forked_child_does_not_keep_the_port(server: StoreServer, root: Path) -> None:
    hold, go = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons: there are threads
        child = os.fork()
    if child == 0:
        os.close(go)
        os.read(hold, 1)  # until the parent says so, or is gone
        os._exit(0)
    os.close(hold)
    url = server.url
    server.stop()
    again = StoreServer(root, url, KEY)
    again.start()
    again.stop()
    os.close(go)
    assert os.waitpid(child, 0)[1] == 0
