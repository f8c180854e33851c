"""Throughput: images that trainers received, over the time in which they asked for them.

Time begins with the first request of a pass and ends with its last delivery. A paused run, and time
in which no trainer asks, are left out. So is a head start: batches that were made while nobody
measured count neither as images nor with the time that it took to receive them.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

LEAST_S = 1.0
"""Less measured time than this says nothing."""
_STRETCHES = 64
"""Batches that were made longer ago than these do not count."""


def images_per_s(images: int, measured_s: float) -> float | None:
    """The one definition of throughput; None where it was not measured."""
    return images / measured_s if measured_s >= LEAST_S else None


@dataclass(frozen=True)
class Received:
    """A batch that a trainer received."""

    images: int
    ready_at: float | None
    """When it was made."""


@dataclass(frozen=True)
class Measured:
    """The part of what was received that counts, and the time that it took."""

    images: int = 0
    seconds: float = 0.0


class DeliveryWatch:
    """Measures what the trainers of one run receive."""

    def __init__(self) -> None:
        self._asking: set[int] = set()
        self._running = False
        self._at = 0.0
        self._waited_s = 0.0
        self._stretches: deque[tuple[float, float]] = deque(maxlen=_STRETCHES)

    def asks(self, rank: int, asks: bool) -> None:
        """Note whether a rank is in a pass; `look` starts and stops the time."""
        (self._asking.add if asks else self._asking.discard)(rank)

    def look(self, now: float, running: bool, present: Collection[int]) -> None:
        """Note whether the run goes on, and which ranks have a trainer."""
        self._pass(now)
        self._asking.intersection_update(present)
        if not self._asking:
            self._waited_s = 0.0
        goes_on = running and bool(self._asking)
        if goes_on and not self._running:
            self._stretches.append((now, now))
        self._running = goes_on

    def receive(self, now: float, batches: Sequence[Received]) -> list[Measured]:
        """Divide the time since the last delivery among batches; a head start takes its part."""
        self._pass(now)
        images = sum(batch.images for batch in batches)
        if not images:
            return [Measured()] * len(batches)
        each_s, self._waited_s = self._waited_s / images, 0.0
        return [
            Measured(batch.images, batch.images * each_s)
            if self._was_measured(batch.ready_at)
            else Measured()
            for batch in batches
        ]

    def waited_s(self, now: float) -> float:
        """Measured seconds since the last delivery."""
        return self._waited_s + (max(0.0, now - self._at) if self._running else 0.0)

    def _pass(self, now: float) -> None:
        self._waited_s = self.waited_s(now)
        self._at = now
        if self._running:
            self._stretches[-1] = self._stretches[-1][0], now

    def _was_measured(self, at: float | None) -> bool:
        return at is not None and any(first <= at <= last for first, last in self._stretches)
