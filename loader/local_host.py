"""The process beside rank 0 that serves the ranks of a host: `python -m ddlp.loader.local_host`.

It reads what to do from standard input, opens the socket where the ranks meet, and ends when all of
them are gone, whoever started it. Signals to the ranks' process groups do not reach it, and
those that mean "end soon" are left to the ranks: what they do then may need their batches.
"""

import logging
import os
import selectors
import signal
import socket
import sys
import threading
import time
import warnings
from collections import defaultdict
from contextlib import suppress
from typing import Any

from ddlp.core.errors import Refused
from ddlp.core.janitor import Janitor
from ddlp.core.messages import Damaged, FeedRequest
from ddlp.loader.group import Group, tell_missing
from ddlp.loader.local import LocalFeed
from ddlp.loader.local_wire import (
    Answer,
    Ask,
    HostOrder,
    Join,
    Joined,
    Lines,
    Went,
    peer_pid,
)
from ddlp.loader.meeting import Meeting, Taken

_GLANCE_S = 0.25
_ACCEPT_PAUSE_S = 0.05
_SIGN_OF_LIFE_S = 2.0
_PLACE_S = 15.0
"""How long an earlier run at the same place may need to end."""
_FIRST_S = 60.0
"""How long rank 0 may take to attach."""
_LINGER_S = 3.0
"""How long ranks that have not come yet are waited for when all others have left."""
_SAY_AFTER_S, _SAY_EVERY_S = 10.0, 30.0

log = logging.getLogger("ddlp.loader.local_host")


class LocalHost:
    """Serves the ranks of one run."""

    def __init__(self, order: HostOrder, janitor: Janitor) -> None:
        self.group = Group(order.world_size)
        self._order = order
        self._janitor = janitor
        self._ready = threading.Event()
        self._feed: LocalFeed | None = None
        self._failure: Exception | None = None
        self._warnings: list[str] = []
        self._failed_at = 0.0
        self._told: set[int] = set()
        """The ranks that have heard of the failure."""
        self._connections: dict[int, list[socket.socket]] = defaultdict(list)
        """Those of each rank; the first is the one that it asks for batches on."""
        self._open = 0
        self._opened = threading.Lock()
        self._watched = selectors.DefaultSelector()

    def serve(self, taken: Taken) -> None:
        """Take connections until all ranks are gone."""
        threading.Thread(target=self._begin, name="ddlp-begin", daemon=True).start()
        self._watched.register(taken.listener, selectors.EVENT_READ, None)
        quiet_since = began = time.monotonic()
        say_at = began + _SAY_AFTER_S
        while True:
            for key, _ in self._watched.select(_GLANCE_S):
                self._take(taken.listener) if key.data is None else self._lost(key)
            now = time.monotonic()
            if self._open:
                quiet_since = now
            if self._is_over(began, now, now - quiet_since):
                return
            missing = self.group.missing
            if now >= say_at and missing:
                words = tell_missing(missing, self.group.world_size)
                log.warning("still waiting for %s", words)
                say_at = now + _SAY_EVERY_S

    def close(self) -> None:
        """End what works for it; a scan under way is cut off, and the janitor clears up."""
        if self._feed is not None:
            self._feed.close()
        elif not self._ready.is_set():
            os._exit(0)

    def _is_over(self, began: float, now: float, quiet_s: float) -> bool:
        if self._failure is not None:
            everybody = len(self._told) == self.group.world_size
            return everybody or now - self._failed_at > _LINGER_S
        if self._open:
            return False
        if quiet_s == now - began:  # nobody has ever come
            return quiet_s > _FIRST_S
        complete = bool(self.group.members) and not self.group.missing
        return complete or not self.group.orderly or quiet_s > _LINGER_S

    def _begin(self) -> None:
        """Make the schedule; it takes as long as the data's scan."""
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                self._feed = LocalFeed(self._order.run.run(), self._order.world_size, self._janitor)
            self._warnings = [str(entry.message) for entry in caught]
        except Exception as error:  # the border of the thread: every rank is told
            self._failure, self._failed_at = error, time.monotonic()
        self._ready.set()

    def _take(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError as error:  # too many files are open, say: it waits in line
            log.warning("a rank cannot be answered yet (%s)", error)
            time.sleep(_ACCEPT_PAUSE_S)
            return
        self._count(1)
        threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _count(self, more: int) -> None:
        with self._opened:
            self._open += more

    def _talk(self, connection: socket.socket) -> None:
        """Answer one connection until it ends."""
        joined: Join | None = None
        lines = Lines(connection)
        try:
            while (line := lines.receive()) is not None:
                ask = Ask.model_validate_json(line)
                if ask.what == "join":
                    joined = self._join(lines, ask)
                elif joined is not None:
                    lines.send(self._answer(ask, joined.rank))
        except OSError:
            pass  # the rank was killed while it was answered
        finally:
            connection.close()
            if joined is not None and joined.main:
                self.group.lose(joined.rank)
            self._count(-1)

    def _join(self, lines: Lines, ask: Ask) -> Join | None:
        """Take a rank in once there is a schedule; None if it cannot be."""
        join = Join.model_validate(ask.body)
        while not self._ready.wait(_SIGN_OF_LIFE_S):
            lines.send(Answer(number=ask.number, later=True))
        try:
            if self._failure is not None:
                raise self._failure
            if join.main:
                self._join_main(lines.connection, join.rank)
        except Exception as error:  # the border of the process: it is raised in the rank
            lines.send(Answer.failed(ask.number, error))
            self._told.add(join.rank)
            return None
        assert self._feed is not None
        self._connections[join.rank].append(lines.connection)
        told = self._warnings if join.rank == 0 else []
        joined = Joined(attached=self._feed.attached, warnings=told)
        lines.send(Answer(number=ask.number, body=joined.model_dump(mode="json")))
        return join

    def _join_main(self, connection: socket.socket, rank: int) -> None:
        if rank and not self._leads():
            raise Refused("rank 0 of this run is gone")
        pid = peer_pid(connection)
        self.group.join(rank, pid)
        if pid is not None and hasattr(os, "pidfd_open"):
            # A forked child of a rank that was killed would keep its connections open.
            with suppress(OSError):
                self._watched.register(os.pidfd_open(pid), selectors.EVENT_READ, rank)

    def _leads(self) -> bool:
        """Whether rank 0 is there or has left in order: else this is the rest of an earlier job."""
        first = self.group.members.get(0)
        if first is None:
            return False
        return first.left or not any(_has_ended(c) for c in self._connections.get(0, []))

    def _lost(self, key: selectors.SelectorKey) -> None:
        """The process of a rank has ended."""
        self._watched.unregister(key.fileobj)
        os.close(key.fd)
        for connection in self._connections[key.data]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _answer(self, ask: Ask, rank: int) -> Answer:
        try:
            return Answer(number=ask.number, body=self._do(ask, rank))
        except Exception as error:  # the border of the process: it is raised in the rank
            return Answer.failed(ask.number, error)

    def _do(self, ask: Ask, rank: int) -> Any:
        """Do what a rank asks for, and return the answer as JSON."""
        feed, group, body = self._feed, self.group, ask.body
        assert feed is not None
        match ask.what:
            case "exchange":
                request = FeedRequest.model_validate(body)
                return group.exchange(feed, request).model_dump(mode="json")
            case "damaged":
                return feed.damaged(Damaged.model_validate(body))
            case "heads":
                return group.heads(feed, rank, *body)
            case "bad_samples":
                return [entry.model_dump(mode="json") for entry in feed.bad_samples()]
            case "begin":
                going = Went.validate_python(body)
                return group.begin(feed, rank, going).model_dump(mode="json")
            case "leave":
                return group.leave(rank)
            case "join":
                raise AssertionError


def _has_ended(connection: socket.socket) -> bool:
    """Whether the other end of a connection is closed; nothing is taken from it."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def main() -> None:
    """Do what standard input says."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # its children keep the usual ways
    logging.basicConfig(level=logging.WARNING, format="ddlp: %(message)s")
    order = HostOrder.model_validate_json(sys.stdin.buffer.read())
    taken = Meeting(order.folder).take(_PLACE_S)
    taken.meeting.order.write_text(order.run.model_dump_json())
    janitor = Janitor()
    janitor.watch(order.folder)
    host = LocalHost(order, janitor)
    try:
        host.serve(taken)
    finally:
        taken.leave()
        host.close()


if __name__ == "__main__":
    main()
