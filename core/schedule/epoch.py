"""One epoch of a run: its frontier, the batches under way, and what was dealt to the ranks.

Batches are dealt in one order for all ranks, which take turns: place p of a segment goes to rank
p mod W as its step p div W. Each deal takes the next batch from the head, ascending, or from the
tail, descending; so what was dealt is always two stretches, and two numbers tell where an epoch
stands, however many batches it has. Memory holds only batches that are leased, ready or handed out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ddlp.core.plan import Segment
from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.frontier import Frontier
from ddlp.core.schedule.shelf import Shelf
from ddlp.core.schedule.strategies.base import Source
from ddlp.core.sessions import Checkpoint, SessionPart, Start
from ddlp.core.takeover import Origin
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
    origin: Origin | None = None
    """The run that delivered what lies before the first segment, if another one did."""
    round_heads: dict[int, int] = field(default_factory=dict)
    """Batches dealt from the head before each of the last steps of all ranks."""
    parts: list[SessionPart] = field(default_factory=list)
    """Which session received what."""
    parts_changed: bool = False
    changed: bool = True

    @classmethod
    def fresh(cls, number: int, segment: Segment) -> EpochSchedule:
        """An epoch of which nothing has been given out."""
        epoch = cls(number, [segment], _frontier(segment))
        epoch.acknowledged = [0] * segment.world_size
        if not segment.batches:
            epoch.state = EpochState.COMPLETE
        return epoch

    @classmethod
    def taken_over(cls, number: int, origin: Origin, segment: Segment) -> EpochSchedule:
        """What another run had left of an epoch."""
        epoch = cls.fresh(number, segment)
        epoch.origin = origin
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
        if self.frontier.head < self.frontier.tail:
            return None
        return self.segment.position + self.frontier.head - self.segment.first

    def next(self, end: End) -> int | None:
        """The batch that would be dealt from an end; None when all were dealt."""
        segment = self.segment
        if self.position >= segment.full:
            short = end is End.HEAD and self.position < segment.batches
            return segment.first + self.position if short else None
        if end is End.HEAD:
            return segment.first + self.dealt[End.HEAD]
        return segment.first + segment.full - 1 - self.dealt[End.TAIL]

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
        self._note_round()
        self.under_way.deal(batch, self.segment.position + self.position)
        self.dealt[end] += 1
        self.changed = True
        return batch

    def _note_round(self) -> None:
        """Remember what was dealt before a step of all ranks, until all have passed it."""
        step, over = divmod(self.position, self.segment.world_size)
        if not over:
            self.round_heads[step] = self.dealt[End.HEAD]
        passed = min(self.acknowledged, default=0)
        while (oldest := next(iter(self.round_heads), passed)) < passed:
            del self.round_heads[oldest]

    def remember_deals(self, dealt: Iterable[Batch]) -> None:
        """Find out again what was dealt before each step, from all that was dealt since one."""
        known = sorted((b for b in dealt if b.position is not None), key=lambda b: b.position or 0)
        heads = self.dealt[End.HEAD] - sum(not batch.from_tail for batch in known)
        found = {}
        for batch in known:
            step, over = divmod(
                (batch.position or 0) - self.segment.position, self.segment.world_size
            )
            if not over:
                found[step] = heads
            heads += not batch.from_tail
        self.round_heads = {**found, **self.round_heads}

    def heads_before(self, step: int) -> int | None:
        """How many batches were dealt from the head before a step of all ranks."""
        if step * self.segment.world_size == self.position:
            return self.dealt[End.HEAD]
        return 0 if step == 0 else self.round_heads.get(step)

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

    # Sessions

    def join(self, rank: int, session: str, start: Start, checkpoint: Checkpoint | None) -> None:
        """A session receives this epoch as a rank, from what that has consumed on."""
        if any(p.session == session and p.rank == rank and p.last is None for p in self.parts):
            return
        self.part(rank)
        first = self.place(0, self.acknowledged[rank])
        world_size = self.segment.world_size
        self.parts.append(
            SessionPart(session, rank, world_size, start, first, None, None, None, checkpoint)
        )
        self.parts_changed = self.changed = True

    def part(self, rank: int) -> None:
        """A rank's session has ended, or leaves the epoch."""
        if not any(p.rank == rank and p.last is None for p in self.parts):
            return
        received = self.place(0, self.acknowledged[rank])
        handed = self.place(0, self.dealt_to(rank))
        self._set_parts(p.ended(received, handed) if p.rank == rank else p for p in self.parts)

    def part_all(self) -> None:
        """The sessions of all ranks have ended, or leave the epoch."""
        for rank in range(self.segment.world_size):
            self.part(rank)

    def extend_part(self, rank: int) -> None:
        """The last session of a rank has received all that the rank consumed."""
        self._part_at(rank, self.place(0, self.acknowledged[rank]))

    def _part_at(self, rank: int, place: int) -> None:
        """A rank goes on from a place: whoever received it until then received all before that."""
        self.part(rank)
        mine = [part for part in self.parts if part.rank == rank]
        others = [part for part in self.parts if part.rank != rank]
        until = [part.cut(place) for part in mine if part.first <= place]
        if until and (until[-1].last or 0) < place:
            received = max(place, until[-1].received or 0)
            until[-1] = replace(until[-1], last=place, received=received)
        self._set_parts([*others, *until])

    def credit(self, rank: int) -> None:
        """What is known to be consumed after a rank's session had ended was received by that."""
        mine = [part for part in self.parts if part.rank == rank]
        if mine and mine[-1].last is not None and mine[-1].first >= self.segment.position:
            self._part_at(rank, self.place(0, self.acknowledged[rank]))

    def _set_parts(self, parts: Iterable[SessionPart]) -> None:
        found = list(parts)
        if found != self.parts:
            self.parts, self.parts_changed, self.changed = found, True, True

    def go_back(self, rank: int, step: int, again: list[Batch]) -> None:
        """What a rank consumed from a step on is wanted again, for the same steps."""
        self._part_at(rank, self.place(0, step))
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

    def uncut(self, position: int) -> None:
        """Take back the cuts that were made beyond a place."""
        while position < self.segment.position:
            for rank in range(self.segment.world_size):
                self.part(rank)
            until, ranks = self.segments.pop().position, self.segment.world_size
            done = until - self.segment.position
            self.acknowledged = [(done + ranks - 1 - rank) // ranks for rank in range(ranks)]
            self._set_parts(part for part in self.parts if part.first < until)

    def cut_anew(self, heads: int, tails: int, world_size: int) -> list[Batch]:
        """Go on after so many batches from each end with other ranks; returns what is void."""
        void = list(self.under_way)
        position = self.segment.position + heads + tails
        for rank in range(self.segment.world_size):
            self._part_at(rank, position)
        self.segments.append(self.segment.rest(heads, tails, world_size))
        self.under_way, self.settled, self.dealt = Shelf(), {}, Counter()
        self.rivals, self.round_heads = Counter(), {}
        self.frontier = _frontier(self.segment)
        self.acknowledged = [0] * world_size
        done = not self.segment.batches
        self.state = EpochState.COMPLETE if done else EpochState.OPEN
        self.changed = True
        return void


def _frontier(segment: Segment) -> Frontier:
    """All of a segment, untouched."""
    full = segment.first + segment.full
    return Frontier(segment.first, full, full, segment.last)
