"""Which process of a host samples: one of all its ranks and workers, so that joules count once.

Whoever has the lock samples. The kernel gives it back when its process dies in whatever way, and
the next that tries has it.
"""

import hashlib
import logging
import os
import socket
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from ddlp.core.messages.energy import HostSample

PERIOD_S = 2.0
"""Between two samples: long before the fastest counter wraps."""
_STOP_S = 5.0

log = logging.getLogger(__name__)


class Samples(Protocol):
    """What can say how a host is."""

    def sample(self) -> HostSample:
        """All of its meters now."""


class OnePerHost:
    """A place that one process of this host and user has, for one server.

    It is the name of a socket that nobody listens at: the kernel gives a name to one process only,
    and nothing is left behind when that one ends.

    Args:
        server: what the samples are for; each server gets its own sampler.
    """

    def __init__(self, server: str = "") -> None:
        mark = hashlib.sha256(server.encode()).hexdigest()[:16]
        self._name = f"\0ddlp-meters-{os.getuid()}-{mark}"
        self._socket: socket.socket | None = None
        os.register_at_fork(after_in_child=_closing(weakref.ref(self)))

    @property
    def held(self) -> bool:
        """Whether this process has it."""
        return self._socket is not None

    def try_take(self) -> bool:
        """Take it if it is free; never waits. True where this process has it, also from before."""
        if self._socket is not None:
            return True
        place = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            place.bind(self._name)
        except OSError:
            place.close()
            return False
        self._socket = place
        return True

    def close(self) -> None:
        """Give it back."""
        place, self._socket = self._socket, None
        if place is not None:
            place.close()


def _closing(lock: "weakref.ref[OnePerHost]") -> Callable[[], None]:
    """A forked child would hold the lock beyond its parent's death: it closes its copy at once."""

    def close() -> None:
        found = lock()
        if found is not None:
            found.close()

    return close


class Sampling(threading.Thread):
    """Samples this host while it has the lock, and tries to have it while it has not.

    Args:
        lock: says whether this process samples.
        make: makes the meters when it begins to; they count from then on.
        send: takes a sample; what it raises is logged, and that sample is lost.
        period_s: seconds between two samples.
    """

    def __init__(
        self,
        lock: OnePerHost,
        make: Callable[[], Samples],
        send: Callable[[HostSample], object],
        period_s: float = PERIOD_S,
    ) -> None:
        super().__init__(name="ddlp-meters", daemon=True)
        self._lock, self._make, self._send, self._period_s = lock, make, send, period_s
        self._meters: Samples | None = None
        self._ended = threading.Event()
        self._failing = False

    def run(self) -> None:
        """Until it is stopped."""
        try:
            self.tick()
            while not self._ended.wait(self._period_s):
                self.tick()
        finally:
            self._lock.close()

    def tick(self) -> None:
        """One sample, if it is this process's to take; whatever goes wrong is only logged."""
        try:
            if not self._lock.try_take():
                return
            if self._meters is None:
                self._meters = self._make()
            self._send(self._meters.sample())
            self._failing = False
        except Exception as error:
            level = logging.DEBUG if self._failing else logging.WARNING
            log.log(level, "a sample of this host's energy is lost: %s", error)
            self._failing = True
            if self._meters is None:
                self._lock.close()  # another process may do better

    def stop(self) -> None:
        """End it, and give the lock back."""
        self._ended.set()
        if self.is_alive():
            self.join(_STOP_S)
        if not self.is_alive():
            self._lock.close()
