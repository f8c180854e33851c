"""Accepting connections while descriptors run out: in pauses, instead of as fast as the loop turns.

A listening socket stays readable as long as somebody waits to be accepted. Where `accept` fails for
want of descriptors, asyncio tries as often as its backlog allows, and others without end; here the
socket is left alone for a while, and whoever waits is accepted when there are descriptors again.
"""

import asyncio
import errno
import logging
import socket
from typing import Any

from ddlp.core.outage import Outage

_PAUSE_S = 0.5
_STARVED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

log = logging.getLogger(__name__)


class Listener(socket.socket):
    """A listening socket that remembers why nobody could be accepted."""

    starved: OSError | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; for want of descriptors it is as if nobody waited."""
        try:
            accepted = super().accept()
        except OSError as error:
            if error.errno not in _STARVED:
                raise
            self.starved = error
            raise BlockingIOError(error.errno, error.strerror) from error
        self.starved = None
        # asyncio does this only for sockets that name their protocol, and these do not: an answer
        # in two writes would wait for the client's delayed acknowledgement, 40 ms.
        accepted[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return accepted


class PatientLoop(asyncio.SelectorEventLoop):
    """An event loop that leaves a starved listener alone for a while."""

    def __init__(self) -> None:
        super().__init__()
        self._outage = Outage(log, "connections cannot be accepted")

    def _accept_connection(self, protocol_factory: Any, sock: Any, *rest: Any) -> None:
        super()._accept_connection(protocol_factory, sock, *rest)  # type: ignore[misc]
        starved = getattr(sock, "starved", None)
        if starved is None:
            self._outage.succeeded()
            return
        self._outage.failed(starved)
        self.remove_reader(sock.fileno())
        self.call_later(_PAUSE_S, self._accept_again, protocol_factory, sock, *rest)

    def _accept_again(self, protocol_factory: Any, sock: Any, *rest: Any) -> None:
        if sock.fileno() != -1:  # it was closed meanwhile
            self._start_serving(protocol_factory, sock, *rest)  # type: ignore[attr-defined]
