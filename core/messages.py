"""What the parts say to each other: the bodies of HTTP requests and of Celery messages, as JSON."""

import uuid
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from ddlp.core.energy import PowerModel
from ddlp.core.plan import RunPlan
from ddlp.core.schedule.batch import Batch
from ddlp.core.types import DeviceKind, EpochState, Prong, RunState

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Message(BaseModel):
    """A body that takes exactly its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# Users


class DatasetCreate(Message):
    """Register a folder of images, one subfolder a class."""

    uri: str = Field(min_length=1, max_length=4096, description="Path of the folder on the server.")
    name: Name | None = Field(None, description="A name for it; the folder's own where left out.")


class DatasetInfo(Message):
    """A registered dataset."""

    name: str
    uri: str
    version: str = Field(description="Hash over paths, sizes, times of change and labels.")
    samples: int
    classes: list[str]
    total_bytes: int
    created_at: float


class PipelineCreate(Message):
    """Name a pipeline."""

    name: Name
    transforms: list[dict[str, Any]] = Field(min_length=1, max_length=32)


class PipelineInfo(Message):
    """A named pipeline with every default written out."""

    name: str
    hash: str
    transforms: list[dict[str, Any]]
    width: int
    height: int


class RunCreate(Message):
    """Everything that decides a run."""

    name: Name | None = Field(None, description="A name for it; made up where left out.")
    dataset: Name
    pipeline: Name = "imagenet-train"
    batch_size: int = Field(64, ge=1, le=65_536)
    epochs: int = Field(1, ge=1, le=100_000)
    seed: int = Field(0, ge=0, lt=2**63)
    strategy: str = Field("wrr", max_length=32)
    world_size: int = Field(1, ge=1, le=4096)


class EpochInfo(Message):
    """One epoch of a run."""

    number: int
    state: EpochState
    batches: int
    head: int = Field(description="Batches given out from the head.")
    tail: int = Field(description="First batch given out from the tail.")
    split: int | None = Field(description="Where the CPU's share ends, for mte.")
    meeting_point: int | None
    made: dict[str, int] = Field(description="Batches made, by prong.")
    consumed: int
    started_at: float
    ended_at: float | None


class EnergyInfo(Message):
    """Joules of one prong's devices, with how they were obtained."""

    source: str
    joules: float | None
    joules_per_image: float | None
    provenance: str
    method: str


class RunInfo(Message):
    """A run and how it stands."""

    id: uuid.UUID
    name: str
    dataset: str
    dataset_version: str
    pipeline: str
    pipeline_hash: str
    engine: str
    batch_size: int
    epochs: int
    seed: int
    strategy: str
    world_size: int
    state: RunState
    reason: str | None
    samples: int
    batches: int = Field(description="Batches an epoch.")
    images: dict[str, int] = Field(description="Images made so far, by prong.")
    images_per_s: dict[str, float | None] = Field(
        description="By prong, from the first second it made something to the last."
    )
    wait_share: float | None = Field(description="Share of the trainer's time spent waiting.")
    energy: list[EnergyInfo]
    emulated: list[str] = Field(description="Prongs whose devices are emulated.")
    created_at: float
    started_at: float | None
    ended_at: float | None


# Devices and workers


class DeviceRegister(Message):
    """A device that offers to produce batches."""

    name: Name
    prong: Prong
    kind: DeviceKind
    slots: int = Field(ge=1, le=4096)
    host: str = Field(max_length=255)
    incarnation: uuid.UUID = Field(description="New at every start: tells a restart from a repeat.")
    engine: str = Field(max_length=64)
    store: str = Field(max_length=4096)
    power: PowerModel


class DeviceInfo(Message):
    """A registered device."""

    name: str
    prong: Prong
    kind: DeviceKind
    emulated: bool
    slots: int
    host: str
    engine: str
    store: str
    power: PowerModel
    live: bool
    last_seen_at: float


class Heartbeat(Message):
    """A device's sign of life."""

    incarnation: uuid.UUID


class WorkSpec(Message):
    """What a worker must know of a run to make any of its batches."""

    run: uuid.UUID
    index_path: Path
    dataset_version: str
    transforms: list[dict[str, Any]]
    plan: RunPlan


class Lease(Message):
    """One batch given to one device until a deadline; also the body of a Celery message."""

    run: uuid.UUID
    epoch: int = Field(ge=0)
    index: int = Field(ge=0)
    token: int = Field(ge=1)


class Claim(Message):
    """A device starts on a lease."""

    lease: Lease
    device: Name


class Commit(Message):
    """A device has finished a lease."""

    lease: Lease
    device: Name
    nbytes: int = Field(ge=0)
    checksum: int = Field(ge=0, lt=2**64)
    seconds: float = Field(ge=0)
    cpu_s: float = Field(ge=0)


class Failure(Message):
    """A device could not finish a lease."""

    lease: Lease
    device: Name
    reason: str = Field(max_length=2000)
    permanent: bool = Field(False, description="Trying again cannot help.")
    no_room: bool = Field(False, description="The device's store is full.")


# Trainers


class Attach(Message):
    """A rank of a training job joins a run."""

    rank: int = Field(0, ge=0)
    world_size: int = Field(1, ge=1)


class Attached(Message):
    """Where a rank goes on, and what it needs to read batches."""

    run: uuid.UUID
    session: uuid.UUID = Field(description="Names this attachment; the rank's next one ends it.")
    name: str
    plan: RunPlan
    dataset_version: str
    transforms: list[dict[str, Any]]
    pipeline_hash: str
    epoch: int
    step: int


class Rewind(Message):
    """A rank goes back to where its checkpoint was taken."""

    rank: int = Field(ge=0)
    epoch: int = Field(ge=0)
    step: int = Field(ge=0)


class FeedRequest(Message):
    """A rank's question for its next batches, carrying what it has consumed meanwhile."""

    rank: int = Field(ge=0)
    session: uuid.UUID
    epoch: int = Field(ge=0)
    received: int = Field(ge=0, description="Batches of this epoch that arrived so far.")
    consumed: int = Field(ge=0, description="Batches of this epoch that were used up so far.")
    want: int = Field(ge=0, le=256)
    wait_s: float = Field(0, ge=0, le=30)
    waited_s: float = Field(0, ge=0, description="Seconds the trainer waited since the last call.")
    trained_s: float = Field(0, ge=0, description="Seconds the trainer worked since the last call.")


class FedBatch(Message):
    """A finished batch, ready to be read."""

    index: int
    step: int
    token: int
    prong: Prong
    device: str
    location: str
    nbytes: int

    @classmethod
    def of(cls, batch: Batch) -> Self:
        """What a rank must know of a batch that is handed to it."""
        return cls(
            index=batch.index,
            step=batch.step or 0,
            token=batch.token,
            prong=batch.prong,
            device=batch.device or "",
            location=batch.location or "",
            nbytes=batch.nbytes,
        )


class Fed(Message):
    """The answer to a feed request."""

    batches: list[FedBatch]
    done: bool = Field(description="Whether the rank has its whole epoch.")
    state: RunState
    reason: str | None = None
    waiting_for: str | None = Field(None, description="What a rank that got nothing waits for.")


class Damaged(Message):
    """A rank found a batch that it was given damaged or gone."""

    rank: int = Field(ge=0)
    epoch: int = Field(ge=0)
    index: int = Field(ge=0)
    token: int = Field(ge=1)
    reason: str = Field(max_length=2000)
    gone: bool = Field(False, description="There is no file any more.")


# Proof


class CertificateBatch(Message):
    """Who made one batch, and who received it."""

    index: int
    prong: Prong
    device: str
    attempt: int
    checksum: str
    rank: int
    step: int


class Certificate(Message):
    """The record that proves that every sample of an epoch was delivered exactly once."""

    run: uuid.UUID
    epoch: int = Field(ge=0)
    dataset_version: str
    pipeline_hash: str
    seed: int
    samples: int = Field(ge=0)
    batch_size: int = Field(ge=1)
    batches: int
    delivered: list[CertificateBatch]
    exactly_once: bool
    problems: list[str]
    digest: str = Field(description="sha256 over everything above.")
