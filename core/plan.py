"""The plan of a run: which samples make up batch k of epoch e, a pure function of a few numbers.

Every rank gets the same number of batches: the number of batches is always a multiple of the number
of ranks, and the tail policy says what becomes of samples that do not fill a round of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ddlp.core.order import EpochOrder
from ddlp.core.types import TailPolicy

Places = tuple[tuple[int, int], ...]
"""Stretches [first, last + 1) of an epoch's order: more than one where a padded batch wraps."""


@dataclass(frozen=True)
class Segment:
    """A stretch of an epoch's order, cut into batches for so many ranks.

    An epoch is one segment. It gets another where training goes on in the middle of it with another
    number of ranks: what was left is then cut anew.
    """

    start: int
    stop: int
    batch_size: int
    world_size: int = 1
    tail: TailPolicy = TailPolicy.SHORT
    first: int = 0
    """Index of its first batch: indices are never used twice in an epoch."""
    position: int = 0
    """Batches of the epoch that were delivered before it."""

    @property
    def samples(self) -> int:
        """Places it covers."""
        return self.stop - self.start

    @property
    def rounds(self) -> int:
        """Batches that each rank receives."""
        each = self.batch_size * self.world_size
        return self.samples // each if self.tail is TailPolicy.DROP else -(-self.samples // each)

    @property
    def batches(self) -> int:
        """Batches of all ranks."""
        return self.rounds * self.world_size

    @property
    def last(self) -> int:
        """One more than the index of its last batch."""
        return self.first + self.batches

    def places(self, index: int) -> Places:
        """Where in the epoch's order the samples of a batch lie."""
        begin, end = self._stretch(index - self.first)
        if end <= self.stop or not self.samples:
            return ((begin, end),)
        return tuple(self._wrapped(begin, end))

    def length(self, index: int) -> int:
        """How many samples a batch has."""
        begin, end = self._stretch(index - self.first)
        return end - begin

    def repeated(self) -> int:
        """Samples that are delivered a second time, so that all ranks get as many batches."""
        last = self._stretch(self.batches - 1)[1] if self.batches else self.start
        return max(0, last - self.stop)

    def dropped(self) -> int:
        """Samples that no batch holds."""
        last = self._stretch(self.batches - 1)[1] if self.batches else self.start
        return max(0, self.stop - last)

    def rest(self, heads: int, tails: int, world_size: int) -> "Segment":
        """What is left after so many batches from each end, cut anew for so many ranks."""
        stop = min(self.stop, self._stretch(self.batches - tails)[0]) if tails else self.stop
        return replace(
            self,
            start=min(stop, self._stretch(heads)[0]),
            stop=stop,
            world_size=world_size,
            first=self.last,
            position=self.position + heads + tails,
        )

    def _stretch(self, number: int) -> tuple[int, int]:
        """The places of a batch by its number in the segment; beyond the end where it is padded."""
        even = self._even_rounds() * self.world_size
        plain = self.batches - even
        if number < plain or not even:
            begin = self.start + number * self.batch_size
            return begin, begin + self.batch_size
        begin = self.start + plain * self.batch_size
        each, more = divmod(self.stop - begin, even)
        if not each:  # fewer samples than ranks: some are repeated
            return begin + number - plain, begin + number - plain + 1
        number -= plain
        first = begin + number * each + min(number, more)
        return first, first + each + (number < more)

    def _even_rounds(self) -> int:
        """How many rounds at the end are cut into equal batches shorter than the others."""
        over = self.samples % (self.batch_size * self.world_size)
        if self.tail is not TailPolicy.SHORT or not over:
            return 0
        # Too few for one sample a rank: the round before shares its own.
        return 2 if over < self.world_size and self.rounds > 1 and self.batch_size > 1 else 1

    def _wrapped(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        while begin < end:
            offset = (begin - self.start) % self.samples
            count = min(end - begin, self.samples - offset)
            yield self.start + offset, self.start + offset + count
            begin += count


@dataclass(frozen=True)
class RunPlan:
    """What decides the batches of a run, apart from the dataset's and the pipeline's content."""

    samples: int
    batch_size: int
    epochs: int
    seed: int
    world_size: int = 1
    tail: TailPolicy = TailPolicy.SHORT

    def __post_init__(self) -> None:
        for name, least in (("samples", 0), ("batch_size", 1), ("epochs", 1), ("world_size", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}")

    @property
    def whole(self) -> Segment:
        """An epoch from end to end."""
        return Segment(0, self.samples, self.batch_size, self.world_size, TailPolicy(self.tail))

    @property
    def batches(self) -> int:
        """Batches an epoch."""
        return self.whole.batches

    @property
    def rank_batches(self) -> int:
        """Batches of an epoch that each rank receives."""
        return self.whole.rounds

    def batch_samples(self, epoch: int, index: int) -> npt.NDArray[np.int64]:
        """The sample numbers of one batch of a whole epoch, in their order."""
        return self.samples_at(epoch, self.whole.places(index))

    def samples_at(self, epoch: int, places: Places) -> npt.NDArray[np.int64]:
        """The samples at some places of an epoch's order."""
        order = EpochOrder(self.samples, self.seed, epoch)
        return np.concatenate([order.slice(start, stop) for start, stop in places])

    def batch_length(self, index: int) -> int:
        """How many samples a batch of a whole epoch has."""
        return self.whole.length(index)
