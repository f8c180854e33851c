"""Where the trainer's time goes: waiting for a batch, or working on one."""

import threading
import time
from collections.abc import Callable


class Timing:
    """Two sums that grow in the trainer's thread and are taken by the prefetching one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._new = [0.0, 0.0]
        self.waited_s = 0.0
        self.trained_s = 0.0

    def waited(self) -> None:
        """What passed since the last mark was waiting."""
        self._mark(0)

    def trained(self) -> None:
        """What passed since the last mark was training."""
        self._mark(1)

    def begin(self) -> None:
        """Start the clock."""
        self._since = self._clock()

    def take(self) -> tuple[float, float]:
        """Seconds waited and trained since the last call."""
        with self._lock:
            waited_s, trained_s = self._new
            self._new = [0.0, 0.0]
        return waited_s, trained_s

    @property
    def wait_share(self) -> float | None:
        """Share of the time spent waiting: near 0 the accelerator is busy, near 1 it starves."""
        total = self.waited_s + self.trained_s
        return self.waited_s / total if total > 0 else None

    def _mark(self, kind: int) -> None:
        now = self._clock()
        passed_s = now - (self._since if self._since is not None else now)
        self._since = now
        with self._lock:
            self._new[kind] += passed_s
        if kind == 0:
            self.waited_s += passed_s
        else:
            self.trained_s += passed_s
