"""What trainers ask, and what they are given."""

import uuid
from typing import Annotated, Any, Self

from pydantic import Field

from ddlp.core.messages.base import Message
from ddlp.core.plan import RunPlan
from ddlp.core.schedule.batch import Batch
from ddlp.core.types import (
    Activity,
    BadPolicy,
    Prong,
    ReadPath,
    RunState,
    Spending,
)

SecondsField = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ReadInfo(Message):
    """Bytes of batches that were read by one path, and why by that one."""

    path: ReadPath
    reason: str = Field(max_length=500)
    batches: int = Field(ge=0)
    bytes: int = Field(ge=0)


class Attach(Message):
    """A rank of a training job joins a run."""

    rank: int = Field(0, ge=0)
    world_size: int = Field(1, ge=1)
    host: str = Field("", max_length=255, description="Where it runs.")


class Where(Message):
    """Where a rank stands in an epoch."""

    epoch: int
    step: int = Field(description="Batches of the segment that it has consumed.")
    rounds: int = Field(description="Batches of the segment that it receives.")
    position: int = Field(description="Batches delivered before the segment, to all ranks.")


class Attached(Message):
    """Where a rank goes on, and what it needs to read batches."""

    run: uuid.UUID
    session: uuid.UUID = Field(description="Names this attachment; the rank's next one ends it.")
    name: str
    plan: RunPlan
    dataset_version: str
    transforms: list[dict[str, Any]]
    pipeline_hash: str
    on_bad: BadPolicy = BadPolicy.FAIL
    where: Where


class Rewind(Message):
    """A rank goes back to where a checkpoint was taken; all ranks go to the same place."""

    rank: int = Field(ge=0)
    session: uuid.UUID
    world_size: int = Field(ge=1, le=4096, description="May differ from what it was until then.")
    epoch: int = Field(ge=0)
    position: int = Field(ge=0, description="Batches of it that all ranks together consumed.")


class StepSpan(Message):
    """A stretch of time of a rank, by its own clock."""

    activity: Activity
    start_s: float = Field(ge=0)
    seconds: float = Field(ge=0)
    epoch: int = Field(ge=0)
    batch: int | None = Field(None, ge=0)
    note: str = Field("", max_length=64)


class TrainerAccount(Message):
    """How a rank spent its time since it last said so; said twice, it counts once."""

    number: int = Field(ge=1, description="Grows by one with every account of a session.")
    spent_s: dict[Spending, SecondsField] = Field({}, description="By what it was spent on.")
    read_s: float = Field(0, ge=0, description="Spent on reading batches, while it trained too.")
    transfer_s: float = Field(0, ge=0, description="Spent on making tensors of them, likewise.")
    reads: list[ReadInfo] = Field([], max_length=64, description="What it read, by path.")
    sent_s: float = Field(0, ge=0, description="When this was sent, by the clock of the spans.")
    spans: list[StepSpan] = Field([], max_length=1024)
    dropped: int = Field(0, ge=0, description="Spans that there was no room for.")


class FeedRequest(Message):
    """A rank's question for its next batches, carrying what it has consumed meanwhile."""

    rank: int = Field(ge=0)
    session: uuid.UUID
    epoch: int = Field(ge=0)
    received: int = Field(ge=0, description="Batches of this segment that arrived so far.")
    consumed: int = Field(ge=0, description="Batches of this segment that were used up so far.")
    want: int = Field(ge=0, le=256)
    wait_s: float = Field(0, ge=0, le=30)
    account: TrainerAccount | None = Field(None, description="How it spent its time since then.")


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
    left_out: str | None = Field(description="Why nothing is in it, if it was isolated.")

    @classmethod
    def of(cls, batch: Batch, step: int) -> Self:
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
            left_out=(batch.reason or "it killed its workers") if batch.isolated else None,
        )


class Fed(Message):
    """The answer to a feed request."""

    batches: list[FedBatch]
    done: bool = Field(description="Whether the rank has its whole epoch.")
    state: RunState
    reason: str | None = None
    waiting_for: str | None = Field(None, description="What a rank that got nothing waits for.")
    blame_s: dict[Spending, float] = Field(
        {}, description="Seconds that the answer had to wait, by what it waited for."
    )


class Damaged(Message):
    """A rank found a batch that it was given damaged or gone."""

    rank: int = Field(ge=0)
    session: uuid.UUID
    epoch: int = Field(ge=0)
    index: int = Field(ge=0)
    token: int = Field(ge=1)
    reason: str = Field(max_length=2000)
    gone: bool = Field(False, description="There is no file any more.")
