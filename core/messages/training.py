"""What trainers ask, and what they are given."""

import uuid
from typing import Any, Self

from pydantic import Field

from ddlp.core.messages.base import Bytes, Count, Message, Seconds
from ddlp.core.plan import RunPlan, Segment
from ddlp.core.schedule.batch import Batch
from ddlp.core.sessions import Start
from ddlp.core.takeover import Origin
from ddlp.core.types import (
    Activity,
    BadPolicy,
    Prong,
    ReadPath,
    RunState,
    Spending,
)


class ReadInfo(Message):
    """Bytes of batches that were read by one path, and why by that one."""

    path: ReadPath
    reason: str = Field(max_length=500)
    batches: Count
    bytes: Bytes


class Attach(Message):
    """A process of a training job wants to be a rank of a run."""

    session: uuid.UUID = Field(
        default_factory=uuid.uuid4, description="Names the process's hold; chosen by the process."
    )
    rank: Count = 0
    world_size: int = Field(1, ge=1, le=4096)
    host: str = Field("", max_length=255, description="Where it runs.")
    place: str = Field(
        "",
        max_length=255,
        description="Where its process number means something: boot and namespace.",
    )
    process: Count = Field(0, description="Its process number.")
    device: str = Field("", max_length=64, description="Where its tensors go, such as cuda:0.")
    dead: list[uuid.UUID] = Field(
        [],
        max_length=4096,
        description="Sessions that held ranks of the run, and whose processes are dead.",
    )


class Where(Message):
    """Where a rank stands in an epoch."""

    epoch: int
    step: int = Field(description="Batches of the segment that it has consumed.")
    rounds: int = Field(description="Batches of the segment that it receives.")
    position: int = Field(description="Batches delivered before the segment, to all ranks.")
    heads: int | None = Field(
        None, description="Batches of the segment, before that step, that came from the head."
    )
    segments: tuple[Segment, ...] = Field(
        (), description="How the epoch is cut; the last one counts."
    )
    epochs: int | None = Field(None, description="Epochs of the run; null where training decides.")
    turn: int = Field(0, description="How often the session has said how it goes on.")


class Holder(Message):
    """The session that holds a rank."""

    session: uuid.UUID
    host: str
    place: str
    process: int
    rank: int
    world_size: int
    heard_s: float = Field(description="Seconds since it was heard from.")


class Taken(Message):
    """A rank cannot be had: another process holds it."""

    holder: Holder
    timeout_s: float = Field(description="After so many silent seconds the rank is free.")


class Attached(Message):
    """Where a rank goes on, and what it needs to read batches."""

    run: uuid.UUID
    session: uuid.UUID = Field(description="Names this process's hold of the rank.")
    name: str
    plan: RunPlan
    dataset: str = ""
    dataset_version: str
    transforms: list[dict[str, Any]]
    pipeline_hash: str
    on_bad: BadPolicy = BadPolicy.FAIL
    state: RunState = RunState.RUNNING
    where: Where
    under_way: bool = Field(
        False, description="Earlier sessions received some of it: say how to go on before a batch."
    )
    hold_s: float = Field(
        0.0, description="A rank that was silent for so long may be given to another process."
    )


class Begin(Message):
    """A session says how it goes on, before its first batch and whenever it goes elsewhere."""

    rank: Count
    session: uuid.UUID
    attach: Attach = Field(description="Who it is, for a run that is over and goes on with this.")
    start: Start
    epoch: Count = Field(0, description="For state and epoch.")
    position: Count = Field(0, description="For state: batches that all ranks had consumed.")
    run: str | None = Field(None, max_length=64, description="The run that the state was taken in.")
    state: Origin | None = Field(
        None, description="The state in full, for a run other than the one it was taken in."
    )
    settled: dict[str, float] = Field({}, description="What the strategy had fixed for the epoch.")
    checkpoint: tuple[Count, Count] | None = Field(
        None, description="The last state of the run that was taken or loaded: epoch and position."
    )


class Leave(Message):
    """A session ends, or says that it lives."""

    rank: Count
    session: uuid.UUID
    checkpoint: tuple[Count, Count] | None = Field(
        None, description="The last state that was taken: its epoch and position."
    )


class MarkRequest(Message):
    """How many batches of a segment came from the head before a step of all ranks."""

    epoch: Count
    step: Count


class Mark(Message):
    """The answer; null while not all of them were dealt."""

    heads: int | None


class StepSpan(Message):
    """A stretch of time of a rank, by its own clock."""

    activity: Activity
    start_s: Seconds
    seconds: Seconds
    epoch: Count
    batch: Count | None = None
    note: str = Field("", max_length=64)


class TrainerAccount(Message):
    """How a rank spent its time since it last said so; said twice, it counts once."""

    number: int = Field(ge=1, lt=2**63, description="Grows by one with every account of a session.")
    spent_s: dict[Spending, Seconds] = Field({}, description="By what it was spent on.")
    read_s: Seconds = Field(0, description="Spent on reading batches, while it trained too.")
    transfer_s: Seconds = Field(0, description="Spent on making tensors of them, likewise.")
    reads: list[ReadInfo] = Field([], max_length=64, description="What it read, by path.")
    sent_s: Seconds = Field(0, description="When this was sent, by the clock of the spans.")
    spans: list[StepSpan] = Field([], max_length=1024)
    dropped: Count = Field(0, description="Spans that there was no room for.")


class FeedRequest(Message):
    """A rank's question for its next batches, carrying what it has consumed meanwhile."""

    rank: Count
    session: uuid.UUID
    turn: Count = Field(0, description="How often its session had said how it goes on.")
    epoch: Count
    received: Count = Field(description="Batches of this segment that arrived so far.")
    consumed: Count = Field(description="Batches of this segment that were used up so far.")
    want: int = Field(ge=0, le=256)
    wait_s: float = Field(0, ge=0, le=30)
    account: TrainerAccount | None = Field(None, description="How it spent its time since then.")
    checkpoint: tuple[Count, Count] | None = Field(
        None, description="The last state that was taken: its epoch and position."
    )


class FedBatch(Message):
    """A finished batch, ready to be read."""

    index: int
    step: int
    token: int
    prong: Prong
    device: str
    host: str = Field("", description="Where its device runs.")
    location: str = Field(description="Where it lies, as file:///… or s3://…")
    served: str | None = Field(None, description="Where its device serves it, as http://…")
    access: str | None = Field(None, description="The token that opens it there.")
    nbytes: int
    samples: int = Field(description="How many it holds: bad ones may have been left out.")
    checksum: int = Field(ge=0, lt=2**64, description="Of its payload, as it was committed.")
    from_tail: bool = Field(description="From which end of the epoch it was taken.")
    round_heads: int | None = Field(
        None, description="Batches of the segment from the head, before this step of all ranks."
    )
    left_out: str | None = Field(description="Why nothing is in it, if it was isolated.")
    bad: int = Field(0, description="Samples of it that were left out or replaced.")
    bad_example: str | None = Field(None, description="One of these, and why.")

    @classmethod
    def of(cls, batch: Batch, step: int, round_heads: int | None = None) -> Self:
        """What a rank must know of a batch that is handed to it."""
        return cls(
            index=batch.index,
            step=step,
            token=batch.token,
            prong=batch.prong,
            device=batch.device or "",
            location=batch.location or "",
            nbytes=batch.nbytes,
            samples=batch.samples,
            checksum=batch.checksum,
            from_tail=batch.from_tail,
            round_heads=round_heads,
            left_out=(batch.reason or "it killed its workers") if batch.isolated else None,
            bad=batch.bad,
            bad_example=batch.bad_example,
        )


class Fed(Message):
    """The answer to a feed request."""

    batches: list[FedBatch]
    done: bool = Field(description="Whether the rank has its whole epoch.")
    state: RunState
    reason: str | None = None
    waiting_for: str | None = Field(None, description="What a rank that got nothing waits for.")
    settled: dict[str, float] = Field({}, description="What the strategy has fixed for the epoch.")
    blame_s: dict[Spending, float] = Field(
        {}, description="Seconds that the answer had to wait, by what it waited for."
    )


class Damaged(Message):
    """A rank found a batch that it was given damaged or gone."""

    rank: Count
    session: uuid.UUID
    epoch: Count
    index: Count
    token: int = Field(ge=1, lt=2**63)
    reason: str = Field(max_length=2000)
    gone: bool = Field(False, description="There is no file any more.")
