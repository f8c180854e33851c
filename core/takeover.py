"""Takeover: a run goes on where another one was left, from nothing but a state.

A state says what was delivered of its epoch in a few numbers: the segments that the epoch was cut
into, and how many batches of the last one came from the head. What is left follows from that.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ddlp.core.errors import InvalidInput
from ddlp.core.plan import RunPlan, Segment
from ddlp.core.types import TailPolicy


@dataclass(frozen=True)
class Origin:
    """Where a run took over from another one."""

    run: str
    epoch: int
    position: int
    """Batches of the epoch that the other run had delivered to all its ranks."""
    heads: int
    """How many of them, in its last segment, came from the head."""
    segments: tuple[Segment, ...]
    """The segments that it had cut the epoch into."""

    def __post_init__(self) -> None:
        if not self.segments or any(
            min(cut.batch_size, cut.world_size) < 1 for cut in self.segments
        ):
            raise ValueError("the state names no segment of its epoch that can be")
        last = self.segments[-1]
        done = self.position - last.position
        if not 0 <= self.heads <= done <= last.batches or done - self.heads > last.full:
            raise ValueError(
                f"the state cannot be right: {self.position} batches delivered, {self.heads} of "
                f"them from the head, in a segment of {last.batches} from {last.position} on"
            )

    def check(self, plan: RunPlan) -> None:
        """Refuse what cannot be of a run with such a plan."""
        for cut in self.segments:
            stretches = ((cut.start, cut.stop), *cut.spare)
            inside = all(0 <= first <= last <= plan.samples for first, last in stretches)
            if not inside or cut.batch_size != plan.batch_size:
                raise InvalidInput(
                    f"the state cannot be of a run over {plan.samples} samples in batches of "
                    f"{plan.batch_size}: {cut}"
                )

    @property
    def tails(self) -> int:
        """How many batches of its last segment came from the tail."""
        return self.position - self.segments[-1].position - self.heads

    @property
    def complete(self) -> bool:
        """Whether nothing of the epoch was left."""
        return self.position >= self.segments[-1].position + self.segments[-1].batches

    @property
    def first_epoch(self) -> int:
        """The first epoch that the run which took over delivers, or the rest of it."""
        return self.epoch + self.complete

    def rest(self, plan: RunPlan) -> Segment:
        """What is left of the epoch, cut for a run's ranks."""
        if self.position == 0:
            return plan.whole
        return self.segments[-1].rest(self.heads, self.tails, plan.world_size, plan.tail)

    def before(self, epoch: int, plan: RunPlan) -> Origin | None:
        """What counts as taken over where the run delivers an epoch from its beginning."""
        if epoch > self.epoch:
            return self
        return Origin(self.run, epoch, 0, 0, (plan.whole,)) if epoch else None

    def as_json(self) -> dict[str, Any]:
        """As it is kept, and travels."""
        return {**vars(self), "segments": [segment_json(cut) for cut in self.segments]}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Origin:
        """As it was kept."""
        try:
            cuts = tuple(segment_from(cut) for cut in kept["segments"])
            return cls(kept["run"], kept["epoch"], kept["position"], kept["heads"], cuts)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"the state cannot be gone on from: {error}") from error


def segment_json(segment: Segment) -> dict[str, Any]:
    """A segment as it is kept."""
    spare = [list(place) for place in segment.spare]
    return {**asdict(segment), "tail": segment.tail.value, "spare": spare}


def segment_from(kept: dict[str, Any]) -> Segment:
    """A segment as it was kept."""
    spare = tuple((int(first), int(last)) for first, last in kept.get("spare", ()))
    return Segment(**{**kept, "tail": TailPolicy(kept["tail"]), "spare": spare})
