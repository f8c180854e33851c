"""The two-ended cursor over the batches of an epoch: what has never been given out lies between.

Short batches come after all others: they are given out once both ends have met.
"""

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from ddlp.core.types import End


@dataclass
class Frontier:
    """Batches head..tail-1 and short..last-1 are untouched; lost ones wait in `returned`."""

    head: int
    tail: int
    short: int = 0
    """The first short batch that nobody has been given."""
    last: int = 0
    returned: set[int] = field(default_factory=set)
    _line: list[tuple[float, int]] = field(default_factory=list)
    """Lost ones in the order in which they are needed; some may have been taken meanwhile."""

    @property
    def untouched(self) -> int:
        """Batches that nobody has been given."""
        return self.tail - self.head + self.last - self.short

    @property
    def met(self) -> bool:
        """Whether all was given out and nothing waits to be given out again."""
        return not self.untouched and not self.returned

    def next(self, end: End) -> int:
        """The batch that would be taken from an end."""
        if self.head >= self.tail:
            return self.short
        return self.head if end is End.HEAD else self.tail - 1

    def take(self, end: End, stop: int) -> int | None:
        """The next batch from an end: below `stop` from the head, at it or above from the tail."""
        index = self.next(end)
        if not self.untouched:
            return None
        if self.head >= self.tail:
            self.short += 1
            return index
        if index >= stop if end is End.HEAD else index < stop:
            return None
        if end is End.HEAD:
            self.head += 1
        else:
            self.tail -= 1
        return index

    def give_back(self, index: int, place: int | None) -> None:
        """A lost batch waits to be given out again: those that hold a place come first."""
        self.returned.add(index)
        heappush(self._line, (float("inf") if place is None else place, index))

    def take_returned(
        self, among: set[int] | None = None, resting: frozenset[int] = frozenset()
    ) -> int | None:
        """The lost batch that is needed next; where a set is given, one of that."""
        if among is None and not resting:
            index = self._next_returned()
        else:
            index = self._next_of(
                (self.returned if among is None else self.returned & among) - resting
            )
        if index is not None:
            self.returned.remove(index)
        return index

    def _next_of(self, free: set[int]) -> int | None:
        if not free:
            return None
        self._line = [entry for entry in self._line if entry[1] in self.returned]
        heapify(self._line)
        return min(entry for entry in self._line if entry[1] in free)[1]

    def _next_returned(self) -> int | None:
        while self._line:
            _, index = heappop(self._line)
            if index in self.returned:
                return index
        return None
