"""Where a rank stands in its run, and how it goes on: what a state is made of."""

from dataclasses import dataclass, replace

from ddlp.core.messages import Where
from ddlp.core.plan import RunPlan, Segment
from ddlp.core.sessions import Start
from ddlp.core.takeover import segment_json
from ddlp.loader.feed import Going, LoaderState


@dataclass(frozen=True)
class Position:
    """A place in an epoch: a segment of it, and the batches of that the rank has consumed.

    It is replaced as a whole, so that a state can be taken at any moment, in any thread.
    """

    epoch: int
    step: int
    before: int
    """Batches of the epoch that were delivered before the segment, to all ranks."""
    rounds: int
    """Steps of the segment."""
    segments: tuple[Segment, ...]
    """The segments that the epoch was cut into; the last one is this one."""
    heads: int | None = 0
    """Batches of the segment that this rank got from the head; None where that is not known."""

    @classmethod
    def beginning(cls, epoch: int, plan: RunPlan) -> "Position":
        """The beginning of a whole epoch."""
        return cls(epoch, 0, 0, plan.rank_batches, (plan.whole,))

    @classmethod
    def of(cls, where: Where, plan: RunPlan) -> "Position":
        """As the run says it."""
        segments = where.segments or (plan.whole,)
        heads = where.heads if where.step else 0
        return cls(where.epoch, where.step, where.position, where.rounds, segments, heads)

    @property
    def whole(self) -> bool:
        """Whether all of the segment was received."""
        return self.step >= self.rounds

    @property
    def at(self) -> int:
        """Batches of the epoch that all ranks have consumed, once they finish the one at hand."""
        return self.before + self.step * self.segments[-1].world_size

    def after(self, from_tail: bool) -> "Position":
        """The place behind one more batch."""
        heads = None if self.heads is None else self.heads + (not from_tail)
        return replace(self, step=self.step + 1, heads=heads)


class Course:
    """Counts what was received, step by step."""

    def __init__(self, plan: RunPlan, where: Where, going: Going | None) -> None:
        self.plan = plan
        self.going = going
        """How it goes on at its next pass; None once it has said so."""
        self.left = False
        """The epoch was left before its end: the next pass is the next epoch."""
        self.received = False
        """Anything of the epoch was received by this process, since it came to that."""
        self.settled: dict[str, float] = {}
        """What the strategy has fixed for the epoch."""
        self.move(where)

    def move(self, where: Where) -> None:
        """Stand somewhere else."""
        self.epochs, self.left, self.received = where.epochs, False, False
        self.position = Position.of(where, self.plan)
        if self.position.whole:  # the state was taken with the last batch at hand
            self.advance()

    def stand_at_end(self, epoch: int) -> None:
        """Stand behind the last epoch: nothing is left."""
        self.position, self.going = Position.beginning(epoch, self.plan), None
        self.left = self.received = False

    @property
    def epoch(self) -> int:
        """The epoch that the next pass, or the pass under way, delivers."""
        if self.going is not None and self.going.start is Start.EPOCH:
            return self.going.epoch
        return self.position.epoch + self.left

    @property
    def has_more(self) -> bool:
        """Whether the run has the epoch that comes next."""
        return self.epochs is None or self.epoch < self.epochs

    def count(self, from_tail: bool) -> None:
        """One more batch was received."""
        self.received = True
        self.position = self.position.after(from_tail)

    def advance(self) -> None:
        """Go to the next epoch."""
        self.position = Position.beginning(self.position.epoch + 1, self.plan)
        self.left = self.received = False

    def leave(self) -> None:
        """Leave a pass, perhaps with the last batch of its epoch at hand."""
        whole = self.position.whole
        if whole:
            self.advance()
        self.left = not whole

    def state(
        self,
        identity: dict[str, object],
        place: Position,
        heads: int | None,
        settled: dict[str, float],
    ) -> LoaderState:
        """All that is needed to go on from a place; `heads` of all ranks together."""
        if place.whole:  # with the last batch at hand: the next epoch's start
            return self.start_of(place.epoch + 1, identity)
        cuts = [segment_json(segment) for segment in place.segments]
        return LoaderState(place.epoch, place.at, identity, heads, settled, cuts)

    def start_of(self, epoch: int, identity: dict[str, object]) -> LoaderState:
        """All that is needed to go on with an epoch from its beginning."""
        return LoaderState(epoch, 0, identity, 0, {}, [segment_json(self.plan.whole)])
