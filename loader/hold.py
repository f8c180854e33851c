"""Holds a rank while its process lives: says so to the server, and knows when it is not certain.

A rank whose process is silent for the server's timeout may be given to another one. So a loader
that had no contact for a good part of that hands out no batch before it knows that the rank is
still its own.
"""

import logging
import os
import threading
import time
from contextlib import suppress

from ddlp.core.client import Client
from ddlp.core.errors import Conflict, DdlpError, WaitTimeout
from ddlp.core.messages import Attached, Leave

_SHARE = 0.6
"""Of the server's timeout: how long a rank counts as held after the last word."""
_BEAT_S = 2.0
_LEAVE_S = 2.0

log = logging.getLogger(__name__)


class Hold:
    """A thread that says every two seconds that this process lives, unless others have said so."""

    def __init__(self, url: str, key: str | None, path: str, rank: int, attached: Attached) -> None:
        self._url, self._key, self._path = url, key, path
        self._rank, self._session = rank, attached.session
        self._owner = os.getpid()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._lost: Conflict | None = None
        self._limit_s: float | None = None
        self._heard_at = time.monotonic()
        self.checkpoint: tuple[int, int] | None = None

    def keep(self, timeout_s: float, now: float) -> None:
        """Hold the rank from now on."""
        self.heard(now)
        if self._thread is None:
            self._limit_s = _SHARE * timeout_s
            self._thread = threading.Thread(target=self._beat, name="ddlp-hold", daemon=True)
            self._thread.start()

    def heard(self, asked_at: float) -> None:
        """The server has answered what was asked then."""
        with self._changed:
            self._heard_at = max(self._heard_at, asked_at)
            self._changed.notify_all()

    def check(self, timeout_s: float) -> None:
        """Raise if the rank is lost; wait for the server while that cannot be known."""
        say_at = time.monotonic() + 1.0
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._lost is None and not self._certain():
                self._changed.wait(0.5)
                if time.monotonic() > say_at:
                    log.warning(
                        "no contact with %s for %.0f s; batches are held back until it is known "
                        "that rank %d is still held by this process",
                        self._url,
                        time.monotonic() - self._heard_at,
                        self._rank,
                    )
                    say_at = time.monotonic() + 10.0
                if self._stopping:
                    raise WaitTimeout("the loader was closed while it waited for the server")
                if time.monotonic() > deadline:
                    raise WaitTimeout(
                        f"no contact with {self._url} for {time.monotonic() - self._heard_at:.0f} "
                        f"s, so it is not known whether rank {self._rank} is still held by this "
                        "process; check that the server runs, or raise wait_timeout_s"
                    )
        if self._lost is not None:
            raise self._lost

    def release(self) -> None:
        """Stop, and free the rank; a forked child has no part in it."""
        if os.getpid() != self._owner:
            return
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is None or self._lost is not None:
            return
        if self._thread is not threading.current_thread():  # the garbage collector runs anywhere
            # A word that comes after the leave would take the rank again.
            self._thread.join(_LEAVE_S)
        with suppress(DdlpError), self._connected() as client:
            client.post(f"{self._path}/leave", self._word())

    def _certain(self) -> bool:
        return self._limit_s is None or time.monotonic() - self._heard_at < self._limit_s

    def _beat(self) -> None:
        client = self._connected()
        told: tuple[int, int] | None = None
        while self._wait():
            asked_at = time.monotonic()
            if asked_at - self._heard_at < _BEAT_S and self.checkpoint == told:
                continue
            try:
                told = self.checkpoint
                client.post(f"{self._path}/alive", self._word())
            except Conflict as error:
                with self._changed:
                    self._lost = error
                    self._changed.notify_all()
                break
            except DdlpError:
                continue  # it is away: whoever waits for it says so
            self.heard(asked_at)
        client.close()

    def _wait(self) -> bool:
        """Wait for the next word; whether there is to be one."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, _BEAT_S / 2)
            return not self._stopping

    def _connected(self) -> Client:
        return Client(self._url, key=self._key, timeout_s=_LEAVE_S, patience_s=0.0)

    def _word(self) -> Leave:
        return Leave(rank=self._rank, session=self._session, checkpoint=self.checkpoint)
