"""Requests that are too slow, too large or too many, over real sockets."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import anyio.to_thread
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from ddlp.core.settings import Settings
from ddlp.server.connections import HEAD_BYTES, bounded_protocol
from tests.conftest import wait_until

GET = b"GET / HTTP/1.1\r\nHost: x\r\n"


class Server:
    """A server in a thread; its application answers with how many bytes it was sent."""

    def __init__(self, **settings: Any) -> None:
        self.go_on = threading.Event()
        self.bodies: list[int] = []
        bounds = Settings(**{"request_timeout_s": 0.3, **settings})
        config = uvicorn.Config(
            self._app,
            log_config=None,
            lifespan="off",
            interface="asgi3",
            http=bounded_protocol(bounds),
            ws="none",
        )
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True
        )

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        size, more = 0, scope["path"] != "/unread"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size, more = size + len(message["body"]), message["more_body"]
        self.bodies.append(size)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first ", "more_body": True})
        if scope["path"] == "/stream":
            await anyio.to_thread.run_sync(self.go_on.wait)
        await send({"type": "http.response.body", "body": b"last"})

    def connect(self) -> socket.socket:
        return socket.create_connection(self._listener.getsockname(), timeout=10)

    @contextmanager
    def running(self) -> Iterator["Server"]:
        self._thread.start()
        wait_until(lambda: self._server.started)
        yield self
        self.go_on.set()
        self._server.should_exit = True
        self._thread.join(10)
        self._listener.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(Server(**settings).running())


def rest(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    found = b""
    while True:
        try:
            part = connection.recv(65_536)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += part


def problem(raw: bytes) -> tuple[int, str]:
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    assert b"connection: close" in head
    told = json.loads(body)
    status = int(head.split()[1])
    assert told["status"] == status
    return status, told["type"]


@pytest.mark.parametrize(
    "begun",
    [GET, b"GET", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf", b"\r\n"],
)
def test_a_request_that_stays_half_is_closed_with_408(
    serve: Callable[..., Server], begun: bytes
) -> None:
    with closing(serve().connect()) as connection:
        connection.sendall(begun)
        assert problem(rest(connection)) == (408, "urn:ddlp:problem:too-slow")


def test_fifty_silent_sockets_are_all_closed(serve: Callable[..., Server]) -> None:
    server = serve()
    silent = [server.connect() for _ in range(50)]
    for connection in silent:
        with closing(connection):
            assert rest(connection) == b""


def test_one_byte_now_and_then_does_not_keep_a_request_open(serve: Callable[..., Server]) -> None:
    ended = threading.Event()
    with closing(serve().connect()) as connection:

        def drip() -> None:
            connection.sendall(GET + b"X: ")
            while not ended.wait(0.02):
                try:
                    connection.sendall(b"y")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        assert b"408" in rest(connection)[:20]
        ended.set()
        thread.join()


def test_an_answer_may_take_longer_than_a_request(serve: Callable[..., Server]) -> None:
    server = serve()
    with closing(server.connect()) as slow, closing(server.connect()) as stream:
        stream.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        slow.sendall(GET)
        assert b"408" in rest(slow)[:20]
        server.go_on.set()
        assert b"last" in rest(stream)


def test_a_body_that_nobody_reads_is_waited_for_no_longer(serve: Callable[..., Server]) -> None:
    with closing(serve().connect()) as connection:
        connection.sendall(b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        assert b"last" in rest(connection)


@pytest.mark.parametrize(
    "head",
    [
        GET + b"X: " + b"y" * HEAD_BYTES,
        GET + b"X: y\r\n" * (HEAD_BYTES // 6),
        b"GET /" + b"y" * HEAD_BYTES,
        GET + b"X: " + b"y" * HEAD_BYTES + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: "
        + b"y" * 10 * HEAD_BYTES,
    ],
)
def test_a_head_that_does_not_end_is_refused_with_431(
    serve: Callable[..., Server], head: bytes
) -> None:
    with closing(serve(request_timeout_s=60).connect()) as connection:
        for at in range(0, len(head), 4096):
            try:
                connection.sendall(head[at : at + 4096])
            except OSError:
                break
        assert problem(rest(connection)) == (431, "urn:ddlp:problem:head-too-large")


def test_a_head_within_its_bounds_is_taken_also_one_after_the_other(
    serve: Callable[..., Server],
) -> None:
    server = serve(request_timeout_s=60)
    large = b"POST / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * (HEAD_BYTES - 200)
    with closing(server.connect()) as connection:
        for count in range(3):
            connection.sendall(large + b"\r\nContent-Length: 400000\r\n\r\n" + b"b" * 400_000)
            wait_until(lambda count=count: len(server.bodies) == count + 1)
        connection.sendall(large + b"\r\nConnection: close\r\n\r\n")
        assert rest(connection).count(b"last") == 4
    assert server.bodies == [400_000] * 3 + [0]


def test_more_connections_than_there_may_be_are_refused_and_others_go_on(
    serve: Callable[..., Server],
) -> None:
    server = serve(max_connections=8, request_timeout_s=60)
    held = [server.connect() for _ in range(8)]
    with closing(server.connect()) as one_more:
        assert problem(rest(one_more)) == (503, "urn:ddlp:problem:unavailable")
    with closing(held.pop()) as first:
        first.sendall(GET + b"Connection: close\r\n\r\n")
        assert b"last" in rest(first)

    def is_taken() -> bool:
        with closing(server.connect()) as again:
            again.sendall(GET + b"Connection: close\r\n\r\n")
            return b"last" in rest(again)

    wait_until(is_taken)
    for connection in held:
        connection.close()
