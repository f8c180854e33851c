"""The order in which an epoch's batches were delivered: from which end each one was taken.

Written as runs, such as "12h3t": twelve from the head, then three from the tail.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, groupby

from ddlp.core.errors import InvalidInput
from ddlp.core.types import End

_LETTERS = {"h": End.HEAD, "t": End.TAIL}
_RUN = re.compile(r"([1-9][0-9]*)([ht])")


class Deals:
    """A sequence of ends, kept as runs."""

    def __init__(self, text: str = "") -> None:
        if not re.fullmatch(f"({_RUN.pattern})*", text):
            raise InvalidInput(f"{text[:40]!r} is no order of delivery; write it as 12h3t")
        self.text = text
        self._runs = [(int(count), _LETTERS[letter]) for count, letter in _RUN.findall(text)]
        self._ends = list(accumulate(count for count, _ in self._runs))

    @classmethod
    def of(cls, ends: Iterable[End]) -> "Deals":
        """From the ends one by one."""
        runs = ((len(list(same)), end) for end, same in groupby(ends))
        return cls("".join(f"{count}{end.value[0]}" for count, end in runs))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, place: int) -> End:
        if not 0 <= place < len(self):
            raise IndexError(place)
        return self._runs[bisect_right(self._ends, place)][1]

    def count(self, end: End) -> int:
        """How many batches were taken from an end."""
        return sum(count for count, run in self._runs if run is end)

    def indices(self, first: int, last: int, full: int | None = None) -> list[int]:
        """The batches first..last-1 of a segment in the order of their delivery.

        Those below `full` are taken from both ends; short ones from there on come after them.
        """
        found: list[int] = []
        short = last if full is None else full
        head, tail = first, short
        for count, end in self._runs:
            both = min(count, max(0, tail - head))
            if end is End.HEAD:
                found += range(head, head + both)
                head += both
            else:
                found += range(tail - 1, tail - 1 - both, -1)
                tail -= both
            found += range(short, short + count - both)
            short += count - both
        return found
