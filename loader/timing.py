"""Where the trainer's time goes: every second is put to one account, and to one only.

Two threads tell what they do: the trainer's, whether it works or waits, and the one that reads
ahead, what it is at. A second in which the trainer works is training, whatever else happens; one in
which it waits is laid to what the other thread is at. While that one asks for batches, only the
answer tells what was waited for: such seconds are held back until it comes.
"""

import threading
import time
from collections.abc import Callable, Mapping

from ddlp.core.types import Activity, Spending
from ddlp.loader.span_log import SpanLog

_WAITING = "waiting"
_TRAINING = "training"


class Timing:
    """The account of one loader; any thread may look at it."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, spans: SpanLog | None = None
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since_s: float | None = None
        self._state = _WAITING
        self._reader: Spending | None = Spending.SCHEDULING
        self._started = False
        self._held_back_s = 0.0
        self._new = dict.fromkeys(Spending, 0.0)
        self._spent_s = dict.fromkeys(Spending, 0.0)
        self.spans = spans or SpanLog(clock)

    # In the trainer's thread

    def begin(self) -> None:
        """A pass begins: the trainer waits for its first batch."""
        with self._lock:
            self._since_s, self._state = self._clock(), _WAITING
        self.spans.mark()

    def waited(self, epoch: int = 0, batch: int | None = None) -> None:
        """What passed since the last mark was waiting; now the trainer works."""
        with self._lock:
            self._settle()
            self._state, self._started = _TRAINING, True
        self.spans.trainer(Activity.WAIT, epoch, batch)

    def trained(self, epoch: int = 0, batch: int | None = None) -> None:
        """What passed since the last mark was training; now the trainer waits."""
        with self._lock:
            self._settle()
            self._state = _WAITING
        self.spans.trainer(Activity.TRAIN, epoch, batch)

    def end(self) -> None:
        """A pass is over: what comes until the next one is no concern of the loader."""
        with self._lock:
            self._settle()
            self._since_s = None

    # In the thread that reads ahead

    def reading(self, what: Spending) -> None:
        """That thread is at this from now on."""
        with self._lock:
            self._settle()
            self._reader = what

    def asking(self) -> None:
        """It asks for batches: what is waited for will be known with the answer."""
        with self._lock:
            self._settle()
            self._reader = None

    def answered(self, blame_s: Mapping[Spending, float]) -> None:
        """The answer is there, with what it had to wait for; the rest was the asking itself."""
        with self._lock:
            self._settle()
            self._reader = Spending.SCHEDULING
            held_s, self._held_back_s = self._held_back_s, 0.0
            blamed_s = sum(blame_s.values())
            scale = min(1.0, held_s / blamed_s) if blamed_s > 0 else 0.0
            for what, seconds in blame_s.items():
                self._add(what, seconds * scale)
            self._add(Spending.SCHEDULING, max(0.0, held_s - blamed_s))

    # From any thread

    def take(self) -> dict[Spending, float]:
        """Seconds since the last call, by what they were spent on."""
        with self._lock:
            self._settle()
            taken, self._new = self._new, dict.fromkeys(Spending, 0.0)
        return {what: seconds for what, seconds in taken.items() if seconds > 0}

    @property
    def spent_s(self) -> dict[Spending, float]:
        """All seconds so far, by what they were spent on."""
        with self._lock:
            return dict(self._spent_s)

    @property
    def trained_s(self) -> float:
        """Seconds in which the trainer worked."""
        return self.spent_s[Spending.TRAINING]

    @property
    def waited_s(self) -> float:
        """Seconds in which it waited, those included whose cause is not known yet."""
        with self._lock:
            waited = [s for what, s in self._spent_s.items() if what is not Spending.TRAINING]
            return sum(waited) + self._held_back_s

    @property
    def wait_share(self) -> float | None:
        """Share of the time spent waiting: near 0 the accelerator is busy, near 1 it starves."""
        waited_s = self.waited_s
        total_s = waited_s + self.trained_s
        return waited_s / total_s if total_s > 0 else None

    def _settle(self) -> None:
        """Put what has passed since the last change to its account."""
        if self._since_s is None:
            return
        now_s = self._clock()
        passed_s, self._since_s = now_s - self._since_s, now_s
        if self._state is _TRAINING:
            self._add(Spending.TRAINING, passed_s)
        elif not self._started:
            self._add(Spending.STARTUP, passed_s)
        elif self._reader is None:
            self._held_back_s += passed_s
        else:
            self._add(self._reader, passed_s)

    def _add(self, what: Spending, seconds: float) -> None:
        self._new[what] += seconds
        self._spent_s[what] += seconds
