"""What the database of a simulated server holds, and what it can prove."""

import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from ddlp.core.certificate import FORMAT, Certificate, Entry, delivered, makers, seal
from ddlp.core.mishap import Mishap
from ddlp.core.plan import RunPlan, Segment
from ddlp.core.schedule import Batch, Changes, EpochSchedule
from ddlp.core.schedule.failures import Failures
from ddlp.core.schedule.fleet import Pace
from ddlp.core.schedule.frontier import Frontier
from ddlp.core.schedule.limits import Limits
from ddlp.core.sessions import SessionPart
from ddlp.core.takeover import Origin
from ddlp.core.types import BatchState, End, EpochState, Prong

_TOKENS = 20
"""How many tokens are reserved at once."""


@dataclass(frozen=True)
class EpochRow:
    """An epoch as it is written down."""

    state: EpochState
    head: int
    tail: int
    short: int
    segments: tuple[Segment, ...]
    dealt: tuple[int, int]
    acknowledged: tuple[int, ...]
    settled: dict[str, float]
    made: tuple[int, int]
    origin: Origin | None
    parts: tuple[SessionPart, ...]


@dataclass
class Records:
    """The truth: what survives when a server dies."""

    world_size: int
    tokens: int = 1
    batches: dict[tuple[int, int], Batch] = field(default_factory=dict)
    epochs: dict[int, EpochRow] = field(default_factory=dict)
    mishaps: dict[tuple[int, int], tuple[Mishap, ...]] = field(default_factory=dict)
    paces: dict[str, tuple[Prong, Pace]] = field(default_factory=dict)
    failed: str | None = None

    def copy(self) -> "Records":
        """As it was before a transaction; rows are never changed in place."""
        return replace(
            self,
            batches=dict(self.batches),
            epochs=dict(self.epochs),
            mishaps=dict(self.mishaps),
            paces=dict(self.paces),
        )

    def save(self, changes: Changes, next_token: int) -> None:
        """Write down what changed."""
        for batch in changes.batches:
            self.batches[batch.epoch, batch.index] = _kept(batch)
        for epoch in changes.epochs:
            self.epochs[epoch.number] = _row(epoch)
        for key, bad in changes.mishaps.items():
            self.mishaps[key] = bad
        if next_token >= self.tokens:
            self.tokens = next_token + _TOKENS

    def open_epochs(self) -> dict[int, EpochSchedule]:
        """The epochs that are not over, as the scheduling core knows them."""
        numbers = sorted(n for n, row in self.epochs.items() if row.state is EpochState.OPEN)
        return {number: self.load(number) for number in numbers}

    def load(self, number: int) -> EpochSchedule:
        """One epoch, open or closed."""
        row = self.epochs[number]
        epoch = EpochSchedule(
            number=number,
            segments=list(row.segments),
            frontier=Frontier(row.head, row.tail, row.short, row.segments[-1].last),
            dealt=Counter(dict(zip(End, row.dealt, strict=True))),
            settled=dict(row.settled),
            state=row.state,
            acknowledged=list(row.acknowledged),
            made_by=Counter(dict(zip(Prong, row.made, strict=True))),
            origin=row.origin,
            parts=list(row.parts),
        )
        mine = self._of(number)
        epoch.remember_deals(batch for batch in mine if _is_of(batch, epoch.segment))
        consumed = [b for b in mine if b.position is not None and epoch.is_consumed(b.position)]
        done = {batch.index for batch in consumed}
        epoch.restore(batch for batch in mine if batch.index not in done)
        epoch.consumed_of = Counter(batch.prong for batch in consumed)
        epoch.bad = sum(batch.bad for batch in mine if batch.state.made)
        epoch.isolated = sum(batch.isolated for batch in mine if batch.state.made)
        return epoch

    def dealt_from(self, number: int, position: int) -> list[Batch]:
        """What was dealt of an epoch from a place on."""
        return [b for b in self._of(number) if b.position is not None and b.position >= position]

    def heads_before(self, number: int, segment: Segment, end: int) -> int:
        """How many batches of a segment were dealt from the head before a place."""
        dealt = self.dealt_from(number, segment.position)
        return sum(not b.from_tail for b in dealt if b.position is not None and b.position < end)

    def forget_from(self, number: int, position: int) -> None:
        """An epoch is cut anew from a place on: what was given out beyond it never was."""
        self.batches = {
            key: batch
            for key, batch in self.batches.items()
            if key[0] < number
            or (key[0] == number and batch.position is not None and batch.position < position)
        }
        self.epochs = {n: row for n, row in self.epochs.items() if n <= number}
        self.mishaps = {key: bad for key, bad in self.mishaps.items() if key in self.batches}

    def recount(self, epoch: EpochSchedule) -> None:
        """Count what an epoch has made and consumed once part of it was forgotten."""
        mine = self._of(epoch.number)
        epoch.made_by = Counter(batch.prong for batch in mine)
        epoch.consumed_of = Counter(epoch.made_by)
        epoch.bad = sum(batch.bad for batch in mine)
        epoch.isolated = sum(batch.isolated for batch in mine)

    def consumed(self, number: int) -> list[Batch]:
        """What was delivered and used up, in the order of delivery."""
        row = self.epochs[number]
        last = row.segments[-1]

        def is_consumed(position: int) -> bool:
            step, rank = divmod(position - last.position, last.world_size)
            return position < last.position or step < row.acknowledged[rank]

        handed = [b for b in self._of(number) if b.state is BatchState.HANDED]
        found = [b for b in handed if b.position is not None and is_consumed(b.position)]
        return sorted(found, key=lambda batch: batch.position or 0)

    def certificate(self, plan: RunPlan, limits: Limits, strategy: str, number: int) -> Certificate:
        """The certificate of an epoch, from nothing but what was written down."""
        row = self.epochs[number]
        entries = [_entry(batch) for batch in self.consumed(number)]
        ends = [*(s.position for s in row.segments[1:]), len(entries)]
        parts = [
            delivered(segment, [e for e in entries if segment.position <= e.position < end])
            for segment, end in zip(row.segments, ends, strict=True)
        ]
        consumed = {entry.index for entry in entries}
        isolated = [i for i in sorted(consumed) if self.batches[number, i].isolated]
        bad = [
            {"batch": batch, **vars(mishap)}
            for (epoch, batch), found in sorted(self.mishaps.items())
            for mishap in found
            if epoch == number and batch in consumed
        ]
        body: dict[str, Any] = {
            "format": FORMAT,
            "run": uuid.UUID(int=plan.seed),
            "epoch": number,
            "state": row.state,
            "dataset_version": "simulated",
            "pipeline_hash": "simulated",
            "seed": plan.seed,
            "samples": plan.samples,
            "batch_size": plan.batch_size,
            "tail": plan.tail,
            "on_bad": limits.on_bad,
            "strategy": strategy,
            "segments": [part.model_dump(mode="json") for part in parts],
            "makers": [made.model_dump(mode="json") for made in makers(entries)],
            "checksums": "".join(entry.checksum for entry in entries),
            "bad": bad,
            "isolated": isolated,
            "previous": "",
        }
        return seal(body)

    def _of(self, number: int) -> list[Batch]:
        """Copies of an epoch's batches."""
        return [_kept(b) for (epoch, _), b in self.batches.items() if epoch == number]


def _kept(batch: Batch) -> Batch:
    """A copy of what is written down of a batch."""
    anew = {"failed": Failures(), "damage": Failures()}
    return replace(batch, process=0, started_at=None, rival=None, **anew)


def _row(epoch: EpochSchedule) -> EpochRow:
    return EpochRow(
        state=epoch.state,
        head=epoch.frontier.head,
        tail=epoch.frontier.tail,
        short=epoch.frontier.short,
        segments=tuple(epoch.segments),
        dealt=(epoch.dealt[End.HEAD], epoch.dealt[End.TAIL]),
        acknowledged=tuple(epoch.acknowledged),
        settled=dict(epoch.settled),
        made=(epoch.made_by[Prong.CPU], epoch.made_by[Prong.CSD]),
        origin=epoch.origin,
        parts=tuple(epoch.parts),
    )


def _is_of(batch: Batch, segment: Segment) -> bool:
    return batch.position is not None and batch.position >= segment.position


def _entry(batch: Batch) -> Entry:
    return Entry(
        index=batch.index,
        position=batch.position or 0,
        from_tail=batch.from_tail,
        prong=batch.prong,
        device=batch.device or "",
        attempt=batch.attempt,
        checksum=f"{batch.checksum:016x}",
    )
