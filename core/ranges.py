"""A set of numbers kept as ranges: small as long as it has few gaps."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator


class Ranges:
    """Sorted, disjoint [start, stop) ranges that do not touch."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._ranges: list[tuple[int, int]] = []
        for start, stop in sorted(pair for pair in ranges if pair[0] < pair[1]):
            if self._ranges and start <= self._ranges[-1][1]:
                start, stop = self._ranges[-1][0], max(stop, self._ranges.pop()[1])
            self._ranges.append((start, stop))

    def add(self, number: int) -> None:
        """Put one number in."""
        place = bisect_left(self._ranges, (number + 1, number + 1))
        start, stop = number, number + 1
        if place < len(self._ranges) and self._ranges[place][0] == stop:
            stop = self._ranges.pop(place)[1]
        if place and self._ranges[place - 1][1] >= start:
            place -= 1
            start, before = self._ranges.pop(place)
            stop = max(stop, before)
        self._ranges.insert(place, (start, stop))

    def gaps(self, total: int) -> list[tuple[int, int]]:
        """The ranges of 0..total-1 that are not in it."""
        edges = [0, *(min(edge, total) for pair in self._ranges for edge in pair), total]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._ranges)

    def __len__(self) -> int:
        """How many numbers it holds."""
        return sum(stop - start for start, stop in self._ranges)
