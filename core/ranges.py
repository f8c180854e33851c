"""A set of numbers kept as ranges: small as long as it has few gaps."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator


class Ranges:
    """Sorted, disjoint [start, stop) ranges."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._ranges = sorted((start, stop) for start, stop in ranges)

    def add(self, number: int) -> None:
        """Put one number in."""
        place = bisect_left(self._ranges, (number + 1, number + 1))
        start, stop = number, number + 1
        if place < len(self._ranges) and self._ranges[place][0] == stop:
            stop = self._ranges.pop(place)[1]
        if place and self._ranges[place - 1][1] >= start:
            if self._ranges[place - 1][1] > start:
                return
            place -= 1
            start = self._ranges.pop(place)[0]
        self._ranges.insert(place, (start, stop))

    def gaps(self, total: int) -> list[tuple[int, int]]:
        """The ranges of 0..total-1 that are not in it."""
        edges = [0, *(edge for pair in self._ranges for edge in pair), total]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._ranges)

    def __len__(self) -> int:
        """How many numbers it holds."""
        return sum(stop - start for start, stop in self._ranges)
