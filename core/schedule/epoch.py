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

    def handed_from(self, rank: int, step: int) -> list[Batch]:
        """What a rank was given from a step on and has not consumed, without a gap, in order."""
        found: list[Batch] = []
        while (batch := self.under_way.at_step(rank, step + len(found))) is not None:
            found.append(batch)
        return found
