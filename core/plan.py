"""The plan of a run: which samples make up batch k of epoch e, a pure function of a few numbers.

Every rank gets the same number of batches: the number of batches is always a multiple of the number
of ranks, and the tail policy says what becomes of samples that do not fill a round of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ddlp.core.order import EpochOrder
from ddlp.core.types import TailPolicy

Places = tuple[tuple[int, int], ...]
"""Stretches [first, last + 1) of an epoch's order."""


@dataclass(frozen=True)
class Segment:
    """A part of an epoch's order, cut into batches for so many ranks.

    An epoch is one segment. It gets another where training goes on in the middle of it with another
    number of ranks, or in another run: what was left is then cut anew.

    The first `full` batches have the full size and are made and delivered from both ends; shorter
    ones come after all of those, so that a training loop sees them last.
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
    spare: Places = ()
    """Stretches that follow start..stop-1: what short batches were to be made of before a cut."""

    @property
    def samples(self) -> int:
        """Places it covers."""
        return self.stop - self.start + sum(last - first for first, last in self.spare)

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
    def full(self) -> int:
        """Batches of the full size; the others are delivered after them."""
        return self.batches - self._even_rounds() * self.world_size

    @property
    def last(self) -> int:
        """One more than the index of its last batch."""
        return self.first + self.batches

    def places(self, index: int) -> Places:
        """Where in the epoch's order the samples of a batch lie."""
        begin, end = self._stretch(index - self.first)
        if end <= self.samples or not self.samples:
            return self._at(begin, end)
        return tuple(place for piece in self._wrapped(begin, end) for place in self._at(*piece))

    def length(self, index: int) -> int:
        """How many samples a batch has."""
        begin, end = self._stretch(index - self.first)
        return end - begin

    def left(self, done: int) -> int:
        """Samples of the batches that come after so many deliveries."""
        short = range(max(self.full, done), self.batches)
        shorter = sum(self.length(self.first + number) for number in short)
        return max(0, self.full - done) * self.batch_size + shorter

    def repeated(self) -> int:
        """Samples that are delivered a second time, so that all ranks get as many batches."""
        return max(0, self._end() - self.samples)

    def dropped(self) -> int:
        """Samples that no batch holds."""
        return max(0, self.samples - self._end())

    def rest(
        self, heads: int, tails: int, world_size: int, tail: TailPolicy | None = None
    ) -> "Segment":
        """What is left after so many batches from each end, cut anew for so many ranks."""
        done, full = heads + tails, self.full
        if done < full:
            over = self._stretch(full)[0] if full < self.batches else full * self.batch_size
            left = [*self._at(*self._between(heads, full - tails)), *self._at(over, self.samples)]
        else:
            over = self._stretch(done)[0] if done < self.batches else self._end()
            left = [*self._at(over, self.samples)]
        left = _joined(left) or [(self.stop, self.stop)]
        return Segment(
            start=left[0][0],
            stop=left[0][1],
            batch_size=self.batch_size,
            world_size=world_size,
            tail=tail or self.tail,
            first=self.last,
            position=self.position + done,
            spare=tuple(left[1:]),
        )

    def _between(self, first: int, last: int) -> tuple[int, int]:
        """The stretch that full batches first..last-1 cover."""
        return first * self.batch_size, min(last * self.batch_size, self.samples)

    def _end(self) -> int:
        """Where the last batch ends."""
        return self._stretch(self.batches - 1)[1] if self.batches else 0

    def _stretch(self, number: int) -> tuple[int, int]:
        """The stretch of a batch by its number in the segment; beyond the end where it is padded.

        Counted from the segment's beginning, as if all it covers were one stretch.
        """
        even = self._even_rounds() * self.world_size
        plain = self.batches - even
        if number < plain or not even:
            return number * self.batch_size, (number + 1) * self.batch_size
        begin = plain * self.batch_size
        each, more = divmod(self.samples - begin, even)
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

    def _at(self, begin: int, end: int) -> Places:
        """Where in the epoch's order a stretch of the segment lies."""
        found: list[tuple[int, int]] = []
        passed = 0
        for first, last in ((self.start, self.stop), *self.spare):
            lower, upper = max(begin - passed, 0), min(end - passed, last - first)
            if lower < upper:
                found.append((first + lower, first + upper))
            passed += last - first
        return tuple(found)

    def _wrapped(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        while begin < end:
            offset = begin % self.samples
            count = min(end - begin, self.samples - offset)
            yield offset, offset + count
            begin += count


def _joined(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same stretches, those that touch as one."""
    found: list[tuple[int, int]] = []
    for first, last in stretches:
        if found and found[-1][1] == first:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found


@dataclass(frozen=True)
class RunPlan:
    """What decides the batches of a run, apart from the dataset's and the pipeline's content."""

    samples: int
    batch_size: int
    epochs: int | None
    """None where training decides how many there are."""
    seed: int
    world_size: int = 1
    tail: TailPolicy = TailPolicy.SHORT
    reshuffle: bool = True
    """Whether each epoch has an order of its own; else all have that of epoch 0."""

    def __post_init__(self) -> None:
        for name, least in (("samples", 0), ("batch_size", 1), ("epochs", 1), ("world_size", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}")

    def has_epoch(self, number: int) -> bool:
        """Whether an epoch is one of the run's."""
        return number >= 0 and (self.epochs is None or number < self.epochs)

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
        order = EpochOrder(self.samples, self.seed, epoch if self.reshuffle else 0)
        return np.concatenate([order.slice(start, stop) for start, stop in places])

    def batch_length(self, index: int) -> int:
        """How many samples a batch of a whole epoch has."""
        return self.whole.length(index)
