"""How long a client may take, how large the head of a request may be, and how many connect at once.

The server that is underneath has no such bounds: it waits for ever for the rest of a request.
"""

import asyncio
import resource
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ddlp.core.errors import DdlpError, HeadTooLarge, TooSlow, Unavailable
from ddlp.core.settings import Settings
from ddlp.server import problems

HEAD_BYTES = 32 * 1024
"""Of the address and all headers together."""
TAKE_S = 120.0
"""A client that takes nothing of an answer for so long is let go."""
_FLUSH_S = 5.0
_OTHER_FILES = 256
"""Descriptors for the database, the broker and what the server reads."""


class _Bounded(HttpToolsProtocol):
    """One connection; `settings` says what it is held to."""

    settings: ClassVar[Settings]
    most: ClassVar[int]
    """Connections that there may be at once."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._deadline: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._arriving = False
        """Whether a request is on its way."""
        self._in_head = True
        self._head_bytes = 0
        """Received since the last part of a body: what follows a body has the same bounds."""
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._refuse(Unavailable(f"{self.most} connections are open already; try again later"))
            return
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of what was waited for."""
        self._arrived()
        self._writable()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        if self._refused:
            return
        if not self._arriving:
            self._expect()
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > HEAD_BYTES:
            self._refuse(_head_too_large())

    def on_message_begin(self) -> None:
        """A request begins: at once behind the one before, or after a rest."""
        super().on_message_begin()
        if not self._arriving:
            self._expect()
        self._in_head = True

    def on_headers_complete(self) -> None:
        """The head is there: work on the request can begin."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > HEAD_BYTES:
            self._refuse(_head_too_large())
        if self._refused:
            return
        self._in_head, self._head_bytes = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._head_bytes = 0
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there as a whole."""
        self._arrived()
        self._in_head, self._head_bytes = True, 0
        if not self._refused:
            super().on_message_complete()

    def pause_writing(self) -> None:
        """The client takes nothing for now."""
        super().pause_writing()
        self._writable()
        self._stuck = self.loop.call_later(TAKE_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The client goes on taking."""
        self._writable()
        super().resume_writing()

    def _expect(self) -> None:
        """From now on a request has so long to arrive as a whole."""
        self._arriving = True
        if self._deadline is None:
            seconds = self.settings.request_timeout_s
            self._deadline = self.loop.call_later(seconds, self._too_slow)

    def _arrived(self) -> None:
        self._arriving = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _writable(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _too_slow(self) -> None:
        seconds = self.settings.request_timeout_s
        if not self._head_bytes and self._in_head:
            self.transport.close()  # nobody has asked anything
            return
        self._refuse(TooSlow(f"the request did not arrive within {seconds:g} s; send it faster"))

    def _refuse(self, error: DdlpError) -> None:
        """Say why, where something was asked and nothing is answered yet, and close."""
        if self._refused:
            return
        self._refused = True
        self._arrived()
        cycle = self.cycle
        busy = cycle is not None and not cycle.response_complete
        if not (busy and cycle.response_started):
            self.transport.write(_answer(error))
        if busy:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()
        self.loop.call_later(_FLUSH_S, self.transport.abort)


def bounded_protocol(bounds: Settings) -> type[HttpToolsProtocol]:
    """What a server speaks on each connection."""

    class Bounded(_Bounded):
        settings = bounds
        most = _most_connections(bounds.max_connections)

    return Bounded


def _most_connections(wanted: int) -> int:
    """As many as there are descriptors for, whose limit is raised as far as it can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - _OTHER_FILES))


def _head_too_large() -> HeadTooLarge:
    return HeadTooLarge(
        f"the address and the headers are larger than {HEAD_BYTES:,} bytes; send less"
    )


def _answer(error: DdlpError) -> bytes:
    body = problems.as_bytes(error)
    head = (
        f"content-type: {problems.MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return STATUS_LINE[error.status] + head.encode() + body
