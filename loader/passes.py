"""One pass over an epoch: waits for its batches, counts them, and says which ones training sees."""

import logging
import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ddlp.core.errors import Conflict, DamagedBatch, WaitTimeout
from ddlp.core.types import BadPolicy
from ddlp.loader.course import Course, Position
from ddlp.loader.feed import Feed
from ddlp.loader.prefetch import LeftOut, Prefetcher
from ddlp.loader.tensors import TensorBatch
from ddlp.loader.timing import Timing

_GLANCE_S = 0.5
_SAY_AFTER_S, _SAY_EVERY_S = 2.5, 10.0
"""After so long it says aloud what it is waiting for."""

log = logging.getLogger(__name__)


@dataclass
class Steps:
    """What training code sees of each step.

    A batch that was isolated is passed over. Where several ranks train together they must make
    the same number of steps: then it repeats the batch before it, or the one after.
    """

    world_size: int
    on_bad: BadPolicy
    last: TensorBatch | None = None
    owed: int = 0

    def shown(self, item: TensorBatch | LeftOut) -> list[TensorBatch]:
        """The batches that training code sees of a step."""
        if self.world_size == 1:
            return [] if isinstance(item, LeftOut) else [item]
        if isinstance(item, LeftOut):
            log.warning("batch %d is repeated by another one: %s", item.index, item.reason)
            self.owed += self.last is None
            return [self.last] if self.last is not None else []
        shown, self.owed = [item] * (1 + self.owed), 0
        self.last = item if self.on_bad is not BadPolicy.FAIL else None
        return shown

    def forget(self) -> None:
        """Repeat nothing of before."""
        self.last, self.owed = None, 0


class Pass:
    """The batches of one epoch, or of what is left of it; its time has begun."""

    def __init__(
        self,
        feed: Feed,
        course: Course,
        read: Callable[[Position], Prefetcher],
        steps: Steps,
        timing: Timing,
    ) -> None:
        self._feed = feed
        self._course = course
        self._read = read
        self._reader = read(course.position)
        self._steps = steps
        self._timing = timing
        self._at_hand = False
        """Whether the loop has a batch that was not yet said to be consumed."""
        self.over = False
        self.stuck = False
        """Whether its thread did not end, and keeps what is for one thread at a time."""

    @property
    def waiting_for(self) -> str | None:
        """What it is waiting for, in words."""
        return self._reader.waiting_for or None

    @property
    def settled(self) -> dict[str, float]:
        """What the strategy has fixed for the epoch."""
        return self._reader.settled

    def heads(self, step: int) -> int | None:
        """How many batches came from the head before a step of all ranks, where that is known."""
        return self._reader.heads(step)

    def batches(self, timeout_s: float) -> Iterator[TensorBatch]:
        """The batches in their order, each as soon as it is there."""
        course = self._course
        try:
            while (item := self._wait(timeout_s)) is not None:
                if isinstance(item, TensorBatch) and not item.is_whole:
                    item = None  # its place is given back before others are read
                    self._read_again()
                    continue
                course.count(item.from_tail)
                self._at_hand = True
                for batch in self._steps.shown(item):
                    self._timing.waited(course.position.epoch, batch.index)
                    yield self._reader.take_over(batch)
                    self._check_not_over()
                    batch.check_used()
                    self._timing.trained(course.position.epoch, batch.index)
                self._consume()
            self._reader.finish(timeout_s)
            self._check_received()
            self.stop()
            course.advance()
            self._steps.owed = 0
        except GeneratorExit:
            self.leave()
            raise
        finally:
            self.stop()  # where it failed, the next pass goes on from here

    def leave(self) -> None:
        """End before its epoch is over; the batch at hand counts as received."""
        if not self.over:
            self._course.leave()
            self._consume()
            self.stop()

    def stop(self) -> None:
        """End, and say what was consumed."""
        if self.over:
            return
        self.over, self._course.settled = True, self._reader.settled
        self._timing.end()
        self.stuck = not self._reader.stop()

    def _read_again(self) -> None:
        """A batch lost its memory while it lay ready: have it, and those after it, made again."""
        log.warning("a batch that lay ready was cut short; it is made again")
        settled = self._reader.settled
        if not self._reader.stop():
            raise DamagedBatch("a batch that lay ready was cut short, and reading does not end")
        self._reader = self._read(self._course.position)
        self._reader.settled = settled

    def _consume(self) -> None:
        if self._at_hand:
            self._at_hand = False
            self._reader.consumed()

    def _check_not_over(self) -> None:
        if self.over:
            raise Conflict(
                "this pass was ended by a later one over the same loader, or by close(); use a "
                "loader of its own for each loop that runs beside others"
            )

    def _check_received(self) -> None:
        """Refuse to take silence for the end of an epoch."""
        place = self._course.position
        if not place.whole:
            raise Conflict(
                f"this rank got {place.step} of its {place.rounds} batches of epoch {place.epoch}, "
                f"although run {self._feed.attached.name} is not finished: the epoch is over for "
                f"the other ranks. Use set_epoch({place.epoch}) on all ranks to have it again"
            )

    def _wait(self, timeout_s: float) -> TensorBatch | LeftOut | None:
        deadline = time.monotonic() + timeout_s
        say_at = time.monotonic() + _SAY_AFTER_S
        while True:
            try:
                item = self._reader.next(_GLANCE_S)
            except queue.Empty:
                if self.over:
                    raise Conflict("the loader was closed while it waited for a batch") from None
                if time.monotonic() > say_at:
                    log.warning("still waiting for: %s", self._reader.awaited)
                    say_at = time.monotonic() + _SAY_EVERY_S
                if self._reader.paused:
                    deadline = time.monotonic() + timeout_s
                if time.monotonic() > deadline:
                    raise WaitTimeout(
                        f"no batch for {timeout_s:.0f} s; waiting for: {self._reader.awaited}; "
                        "raise wait_timeout_s if that is expected"
                    ) from None
            else:
                if item is None and self.over:
                    raise Conflict("the loader was closed while it waited for a batch")
                if item is not None:
                    self._feed.check(timeout_s)
                return item
