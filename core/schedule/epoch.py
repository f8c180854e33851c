"""One epoch of a run: its frontier, the batches under way, and what was dealt to the ranks.

Batches are dealt in one order for all ranks, which take turns: place p of a segment goes to rank
p mod W as its step p div W. Each deal takes the next batch from the head, ascending, or from the
tail, descending; so what was dealt is always two stretches, and two numbers tell where an epoch
stands, however many batches it has. Memory holds only batches that are leased, ready or handed out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ddlp.core.plan import Segment
from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.frontier import Frontier
from ddlp.core.schedule.shelf import Shelf
from ddlp.core.schedule.strategies.base import Source
from ddlp.core.types import BatchState, End, EpochState, Prong

_AHEAD = 2
"""Steps of a rank that are made whatever lies in the store."""


@dataclass
class EpochSchedule:
    """The state of one epoch."""

    number: int
    segments: list[Segment]
    """The last one is under way; those before it ended where the number of ranks changed."""
    frontier: Frontier
    dealt: Counter[End] = field(default_factory=Counter)
    """Batches of the segment under way that were dealt, by end."""
    settled: dict[str, float] = field(default_factory=dict)
    """What the strategy has fixed for this epoch, such as where the CPU's share ends."""
    state: EpochState = EpochState.OPEN
    under_way: Shelf = field(default_factory=Shelf)
    acknowledged: list[int] = field(default_factory=list)
    """Batches of the segment under way that each rank has consumed."""
    made_by: Counter[Prong] = field(default_factory=Counter)
    consumed_of: Counter[Prong] = field(default_factory=Counter)
    rivals: Counter[Prong] = field(default_factory=Counter)
    """Second leases that each prong works on."""
    bad: int = 0
    """Bad samples in the batches that are made."""
    isolated: int = 0
    """Batches that were left out because they killed their workers."""
    changed: bool = True

    @classmethod
    def fresh(cls, number: int, segment: Segment) -> EpochSchedule:
        """An epoch of which nothing has been given out."""
        epoch = cls(number, [segment], Frontier(segment.first, segment.last))
        epoch.acknowledged = [0] * segment.world_size
        if not segment.batches:
            epoch.state = EpochState.COMPLETE
        return epoch

    @classmethod
    def resumed(cls, number: int, segment: Segment, heads: int, tails: int) -> EpochSchedule:
        """An epoch of which its one rank has consumed so many batches from each end."""
        epoch = cls.fresh(number, segment)
        epoch.frontier = Frontier(segment.first + heads, segment.last - tails)
        epoch.dealt.update({End.HEAD: heads, End.TAIL: tails})
        epoch.acknowledged = [heads + tails]
        if heads + tails >= segment.batches:
            epoch.state = EpochState.COMPLETE
        return epoch

    def restore(self, batches: Iterable[Batch]) -> None:
        """Take up batches that are under way, as they were written down."""
        for batch in batches:
            self.under_way.put(batch)
            if batch.state is BatchState.LOST:
                self.frontier.give_back(batch.index, batch.position)
        self.changed = False

    @property
    def segment(self) -> Segment:
        """The segment under way."""
        return self.segments[-1]

    @property
    def batches(self) -> int:
        """Batches of the whole epoch."""
        return self.segment.position + self.segment.batches

    @property
    def position(self) -> int:
        """Batches of the segment under way that were dealt: also the place dealt next."""
        return self.dealt[End.HEAD] + self.dealt[End.TAIL]

    @property
    def consumed(self) -> int:
        """Batches that all ranks together have consumed."""
        return self.segment.position + sum(self.acknowledged)

    @property
    def meeting_point(self) -> int | None:
        """How many batches lie before the place where the ends met, once they did."""
        if self.frontier.untouched > 0:
            return None
        return self.segment.position + self.frontier.head - self.segment.first

    def next(self, end: End) -> int | None:
        """The batch that would be dealt from an end; None when all were dealt."""
        if self.position >= self.segment.batches:
            return None
        if end is End.HEAD:
            return self.segment.first + self.dealt[End.HEAD]
        return self.segment.last - 1 - self.dealt[End.TAIL]

    def is_ready(self, end: End) -> bool:
        """Whether the batch that would be dealt from an end is made."""
        index = self.next(end)
        batch = None if index is None else self.under_way.get(index)
        return batch is not None and batch.state is BatchState.READY

    def deal(self, end: End) -> Batch:
        """Give the next batch from an end its place in the order of delivery."""
        index = self.next(end)
        assert index is not None
        batch = self.under_way[index]
        batch.from_tail = end is End.TAIL
        self.under_way.deal(batch, self.segment.position + self.position)
        self.dealt[end] += 1
        self.changed = True
        return batch

    def place(self, rank: int, step: int) -> int:
        """The place in the order of delivery of a rank's step."""
        return self.segment.position + step * self.segment.world_size + rank

    def is_consumed(self, place: int) -> bool:
        """Whether the batch dealt as a place was consumed."""
        if place < self.segment.position:
            return True
        step, rank = divmod(place - self.segment.position, self.segment.world_size)
        return step < self.acknowledged[rank]

    def dealt_to(self, rank: int) -> int:
        """How many steps of a rank were dealt."""
        return (self.position + self.segment.world_size - 1 - rank) // self.segment.world_size

    def handed_from(self, rank: int, step: int) -> list[Batch]:
        """What a rank was dealt from a step on and can have now, without a gap, in order."""
        found: list[Batch] = []
        while (batch := self.under_way.at(self.place(rank, step + len(found)))) is not None:
            if batch.state is not BatchState.HANDED:
                break
            found.append(batch)
        return found

    def in_flight(self, prong: Prong) -> int:
        """Leases of a prong that somebody is meant to be working on."""
        waiting = self.under_way.count(prong, BatchState.QUEUED, BatchState.LEASED)
        return waiting + self.rivals[prong]

    def stored(self, prong: Prong) -> int:
        """Batches of a prong that are under way, or made and not consumed."""
        made = self.under_way.count(prong, BatchState.READY, BatchState.HANDED)
        return self.in_flight(prong) + made

    def take(self, sources: list[Source], among: set[int] | None) -> int | None:
        """The next untouched batch from the first source that has one, and that may be taken."""
        for source in sources:
            if among is not None and self.frontier.next(source.end) not in among:
                continue
            index = self.frontier.take(source.end, source.stop)
            if index is not None:
                return index
        return None

    def lost_steps(self) -> set[int]:
        """Lost batches that ranks need for their next steps."""
        next_steps = [
            self.under_way.at(self.place(rank, done + ahead))
            for rank, done in enumerate(self.acknowledged)
            for ahead in range(_AHEAD)
        ]
        return {b.index for b in next_steps if b is not None and b.state is BatchState.LOST}

    def count_made(self, batch: Batch, times: int = 1) -> None:
        """Count a batch that was made, or take it back."""
        self.made_by[batch.prong] += times
        self.bad += times * batch.bad
        self.isolated += times * batch.isolated
        self.changed = True

    def settle(self, **found: float) -> None:
        """Record what the strategy fixed."""
        self.settled |= found
        self.changed = True

    def consume(self, batch: Batch, rank: int) -> None:
        """A rank has used a batch up; the last one completes the epoch."""
        self.under_way.remove(batch)
        self.consumed_of[batch.prong] += 1
        self.acknowledged[rank] += 1
        self.changed = True
        if sum(self.acknowledged) == self.segment.batches:
            self.state = EpochState.COMPLETE

    def go_back(self, rank: int, step: int, again: list[Batch]) -> None:
        """What a rank consumed from a step on is wanted again, for the same steps."""
        for batch in again:
            batch.state = BatchState.LOST
            self.consumed_of[batch.prong] -= 1
            self.count_made(batch, -1)
            self.under_way.put(batch)
            self.frontier.give_back(batch.index, batch.position)
        self.acknowledged[rank] = min(self.acknowledged[rank], step)
        done = sum(self.acknowledged) == self.segment.batches
        self.state = EpochState.COMPLETE if done else EpochState.OPEN
        self.changed = True

    def cut_anew(self, heads: int, tails: int, world_size: int) -> list[Batch]:
        """Go on after so many batches from each end with other ranks; returns what is void."""
        void = list(self.under_way)
        self.segments.append(self.segment.rest(heads, tails, world_size))
        self.under_way, self.settled, self.dealt = Shelf(), {}, Counter()
        self.rivals = Counter()
        self.frontier = Frontier(self.segment.first, self.segment.last)
        self.acknowledged = [0] * world_size
        done = not self.segment.batches
        self.state = EpochState.COMPLETE if done else EpochState.OPEN
        self.changed = True
        return void
