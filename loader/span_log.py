"""What a rank did when, kept for a short while and sent along with what it asks."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ddlp.core.messages import StepSpan
from ddlp.core.types import Activity

_KEPT = 4096
_MOST_TOLD = 1024


class SpanLog:
    """A bounded line of spans: where nobody takes them, the oldest are dropped and counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, enabled: bool = True) -> None:
        self._clock = clock
        self._enabled = enabled
        self._lock = threading.Lock()
        self._spans: deque[StepSpan] = deque(maxlen=_KEPT)
        self._dropped = 0
        self._marked_s = clock()
        self._busy_s = dict.fromkeys((Activity.READ, Activity.TRANSFER), 0.0)

    def mark(self) -> None:
        """The next span of the trainer begins now."""
        self._marked_s = self._clock()

    def trainer(self, activity: Activity, epoch: int, batch: int | None) -> None:
        """What the trainer did since its last mark."""
        start_s, self._marked_s = self._marked_s, self._clock()
        self._put(activity, start_s, self._marked_s, epoch, batch, "")

    @contextmanager
    def during(self, activity: Activity, epoch: int, batch: int, note: str = "") -> Iterator[None]:
        """What the thread that reads ahead does in here."""
        start_s = self._clock()
        try:
            yield
        finally:
            end_s = self._clock()
            with self._lock:
                self._busy_s[activity] += end_s - start_s
            self._put(activity, start_s, end_s, epoch, batch, note)

    def take_busy_s(self) -> dict[Activity, float]:
        """Seconds spent on reading and on making tensors since the last call."""
        with self._lock:
            taken, self._busy_s = self._busy_s, dict.fromkeys(self._busy_s, 0.0)
        return taken

    def take(self) -> tuple[list[StepSpan], int]:
        """As many spans as fit a message, and how many were dropped since the last call."""
        with self._lock:
            count = min(len(self._spans), _MOST_TOLD)
            taken = [self._spans.popleft() for _ in range(count)]
            dropped, self._dropped = self._dropped, 0
        return taken, dropped

    def _put(
        self,
        activity: Activity,
        start_s: float,
        end_s: float,
        epoch: int,
        batch: int | None,
        note: str,
    ) -> None:
        if not self._enabled:
            return
        span = StepSpan.model_construct(
            activity=activity,
            start_s=start_s,
            seconds=max(0.0, end_s - start_s),
            epoch=epoch,
            batch=batch,
            note=note[:64],
        )
        with self._lock:
            self._dropped += len(self._spans) == _KEPT
            self._spans.append(span)
