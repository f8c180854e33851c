"""A server that runs out of descriptors waits, and serves who waited once there are some."""

import asyncio
import errno
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ddlp.cli.serve import listen
from ddlp.server import accepting
from ddlp.server.accepting import PatientLoop


def ask(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        return connection.recv(100)


async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    writer.close()


async def serve(listener: socket.socket, clients: int) -> list[bytes]:
    """Serve so many clients at once."""
    server = await asyncio.start_server(greet, sock=listener, backlog=2048)
    port = listener.getsockname()[1]
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(clients) as threads:
        answers = [loop.run_in_executor(threads, ask, port) for _ in range(clients)]
        found = await asyncio.gather(*answers)
    server.close()
    return found


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS])
def test_accepting_pauses_while_there_are_no_descriptors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    accept, starved = socket.socket.accept, [OSError(number, os.strerror(number))] * 5
    attempts = 0

    def without_descriptors(self: socket.socket) -> tuple[socket.socket, Any]:
        nonlocal attempts
        if starved:
            attempts += 1
            raise starved.pop()
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", without_descriptors)
    monkeypatch.setattr(accepting, "_PAUSE_S", 0.01)
    loop = PatientLoop()
    waits: list[float] = []
    call_later = loop.call_later
    monkeypatch.setattr(
        loop, "call_later", lambda s, *rest: waits.append(s) or call_later(s, *rest)
    )
    try:
        assert loop.run_until_complete(serve(listen("127.0.0.1", 0), 8)) == [b"hello"] * 8
    finally:
        loop.close()
    assert attempts == 5
    assert waits.count(0.01) == 5, "after each attempt the socket was left alone"
    [said] = caplog.records
    assert "connections cannot be accepted" in said.getMessage()


def test_other_errors_of_accepting_are_as_before() -> None:
    with listen("127.0.0.1", 0) as listener:
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    with pytest.raises(OSError, match="Bad file descriptor"):
        listener.accept()


def test_answers_in_several_writes_are_sent_at_once() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
