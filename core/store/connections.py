"""How many clients are served at once: who waits with nothing to ask makes room for who comes."""

import contextlib
import socket
import threading
import time

_PATIENCE_S = 1.0
"""How long somebody who comes is kept waiting for room."""
_GRACE_S = 1.0
"""How long somebody who was let in may take to ask for the first time."""
_LOOK_S = 0.05


class Connections:
    """The open connections of a server."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._change = threading.Condition()
        self._waits_since: dict[socket.socket, float | None] = {}
        """None while a connection is being served; a new one is as if it waited from later on."""
        self._closed = False

    def __len__(self) -> int:
        with self._change:
            return len(self._waits_since)

    def admit(self, connection: socket.socket) -> bool:
        """Let somebody in, after a while at most; says whether there was room."""
        deadline = time.monotonic() + _PATIENCE_S
        with self._change:
            while len(self._waits_since) >= self._most and not self._closed:
                if self._send_one_away():
                    break
                if time.monotonic() > deadline:
                    return False
                self._change.wait(_LOOK_S)
            if not self._closed:
                self._waits_since[connection] = time.monotonic() + _GRACE_S
            return not self._closed

    def begin(self, connection: socket.socket) -> None:
        """It is being served."""
        self._mark(connection, None)

    def end(self, connection: socket.socket) -> None:
        """It was served, and may ask for more."""
        self._mark(connection, time.monotonic())

    def leave(self, connection: socket.socket) -> None:
        """It is gone."""
        with self._change:
            self._waits_since.pop(connection, None)
            self._change.notify_all()

    def close(self, timeout_s: float = 5.0) -> None:
        """Let nobody in any more, send everybody away, and wait until they are gone."""
        with self._change:
            self._closed = True
            for connection in self._waits_since:
                _shut(connection)
            self._change.wait_for(lambda: not self._waits_since, timeout_s)

    def forget(self) -> None:
        """In a process that was forked: these are its parent's."""
        for connection in list(self._waits_since):
            connection.close()

    def _mark(self, connection: socket.socket, since: float | None) -> None:
        with self._change:
            if connection in self._waits_since:
                self._waits_since[connection] = since

    def _send_one_away(self) -> bool:
        """Close the connection that has waited for longest with nothing to ask."""
        now = time.monotonic()
        waiting = [(s, c) for c, s in self._waits_since.items() if s is not None and s <= now]
        if not waiting:
            return False
        _, connection = min(waiting, key=lambda entry: entry[0])
        del self._waits_since[connection]
        _shut(connection)
        return True


def _shut(connection: socket.socket) -> None:
    """End a connection; whoever serves it notices, and closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
