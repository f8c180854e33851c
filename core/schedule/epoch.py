"""One epoch of a run: its frontier, the batches under way, and what each rank has received.

Memory holds only batches that are leased, ready or handed out; a consumed one is a count. So the
state of an epoch is as large as its windows, however many batches it has.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ddlp.core.ranges import Ranges
from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.frontier import Frontier
from ddlp.core.schedule.shelf import Shelf
from ddlp.core.schedule.strategies.base import Source
from ddlp.core.types import BatchState, EpochState, Prong


@dataclass
class EpochSchedule:
    """The state of one epoch."""

    number: int
    batches: int
    world_size: int
    frontier: Frontier
    split: int | None = None
    state: EpochState = EpochState.OPEN
    under_way: Shelf = field(default_factory=Shelf)
    received: list[int] = field(default_factory=list)
    """Batches handed to each rank so far: also the step its next batch gets."""
    acknowledged: list[int] = field(default_factory=list)
    """Batches each rank has consumed."""
    made_by: Counter[Prong] = field(default_factory=Counter)
    handed_of: Counter[Prong] = field(default_factory=Counter)
    consumed_of: Counter[Prong] = field(default_factory=Counter)
    bad: int = 0
    """Bad samples in the batches that are made."""
    changed: bool = True

    @classmethod
    def fresh(cls, number: int, batches: int, world_size: int) -> EpochSchedule:
        """An epoch of which nothing has been given out."""
        return cls(
            number=number,
            batches=batches,
            world_size=world_size,
            frontier=Frontier(0, batches),
            received=[0] * world_size,
            acknowledged=[0] * world_size,
        )

    @classmethod
    def resumed(
        cls, number: int, batches: int, done: Ranges, split: int | None = None
    ) -> EpochSchedule:
        """An epoch of which one rank has consumed some batches: the widest gap is the frontier."""
        epoch = cls.fresh(number, batches, world_size=1)
        gaps = done.gaps(batches)
        middle = max(gaps, key=lambda gap: gap[1] - gap[0], default=(batches, batches))
        others = {index for gap in gaps if gap != middle for index in range(*gap)}
        epoch.frontier = Frontier(*middle, returned=others)
        epoch.split = split
        epoch.received, epoch.acknowledged = [len(done)], [len(done)]
        return epoch

    @property
    def consumed(self) -> int:
        """Batches that all ranks together have consumed."""
        return sum(self.acknowledged)

    @property
    def meeting_point(self) -> int | None:
        """Where the ends met, once they did."""
        return self.frontier.head if self.frontier.head >= self.frontier.tail else None

    def next_position(self, rank: int) -> int:
        """The place in the epoch's order that this rank takes next: ranks take turns."""
        return rank + self.received[rank] * self.world_size

    def is_ready(self, index: int) -> bool:
        """Whether a batch is made and not yet handed out."""
        batch = self.under_way.get(index)
        return batch is not None and batch.state is BatchState.READY

    def in_flight(self, prong: Prong) -> int:
        """Batches of a prong that somebody is meant to be producing."""
        return self.under_way.count(prong, BatchState.QUEUED, BatchState.LEASED)

    def stored(self, prong: Prong) -> int:
        """Batches of a prong that are under way or lie in its store, waiting to be handed out."""
        return self.in_flight(prong) + self.under_way.count(prong, BatchState.READY)

    def take(self, sources: list[Source], among: set[int] | None) -> int | None:
        """The next untouched batch from the first source that has one, and that may be taken."""
        for source in sources:
            if among is not None and self.frontier.next(source.end) not in among:
                continue
            take = self.frontier.take_head if source.end == "head" else self.frontier.take_tail
            index = take(source.stop)
            if index is not None:
                return index
        return None

    def lost_steps(self) -> set[int]:
        """Lost batches that a rank waits for: they hold a step of it."""
        lost = self.under_way.in_state(BatchState.LOST)
        return {batch.index for batch in lost if batch.rank is not None}

    def count_made(self, batch: Batch, times: int = 1) -> None:
        """Count a batch that was made, or take it back."""
        self.made_by[batch.prong] += times
        self.bad += times * batch.bad

    def fix_split(self, split: int) -> None:
        """Record where the CPU's share ends."""
        self.split = split
        self.changed = True

    def hand(self, batch: Batch, rank: int) -> None:
        """Give a ready batch to a rank as its next step."""
        batch.rank, batch.step = rank, self.received[rank]
        self.under_way.move(batch, BatchState.HANDED)
        self.received[rank] += 1
        self.handed_of[batch.prong] += 1

    def consume(self, batch: Batch, rank: int, now: float) -> None:
        """A rank has used a batch up; the last one completes the epoch."""
        self.under_way.remove(batch)
        batch.state, batch.consumed_at = BatchState.CONSUMED, now
        self.consumed_of[batch.prong] += 1
        self.acknowledged[rank] += 1
        self.changed = True
        if self.consumed == self.batches:
            self.state = EpochState.COMPLETE

    def take_back(self, batch: Batch, rank: int) -> None:
        """A consumed batch is wanted again, for the same step."""
        batch.state, batch.consumed_at = BatchState.LOST, None
        self.consumed_of[batch.prong] -= 1
        self.count_made(batch, -1)
        self.under_way.put(batch)
        self.frontier.returned.add(batch.index)
        self.acknowledged[rank] -= 1

    def handed_from(self, rank: int, step: int) -> list[Batch]:
        """What a rank was given from a step on and has not consumed, without a gap, in order."""
        found: list[Batch] = []
        while (batch := self.under_way.at_step(rank, step + len(found))) is not None:
            found.append(batch)
        return found
