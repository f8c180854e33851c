"""What the parts say to each other: the bodies of HTTP requests and of Celery messages, as JSON."""

import uuid
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from ddlp.core.energy import PowerModel
from ddlp.core.mishap import Mishap
from ddlp.core.plan import RunPlan
from ddlp.core.schedule.batch import Batch
from ddlp.core.types import BadPolicy, DatasetState, DeviceKind, EpochState, Prong, RunState

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Message(BaseModel):
    """A body that takes exactly its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# Users


class DatasetCreate(Message):
    """Register images: a folder with one subfolder a class, or a file that holds or lists them."""

    uri: str = Field(min_length=1, max_length=4096, description="Path on the server.")
    name: Name | None = Field(None, description="A name for it; the path's own where left out.")
    check: Literal["quick", "full"] = Field(
        "quick", description="quick reads each image's head, full decodes each image."
    )


class ScanInfo(Message):
    """How far a scan has come."""

    found: int = Field(0, description="Samples found so far.")
    done: int = Field(0, description="Of these, looked at.")
    rejected: int = Field(0, description="Of these, found bad and left out.")
    bytes: int = Field(0, description="Encoded bytes of what was looked at.")


class DatasetInfo(Message):
    """A registered dataset."""

    name: str
    uri: str
    state: DatasetState
    reason: str | None = Field(description="Why the scan failed.")
    kind: str | None = Field(description="folder, manifest, tar or array, once that is known.")
    check: str
    version: str = Field(description="Hash over names, sizes, times of change and labels.")
    samples: int
    classes: list[str]
    total_bytes: int
    rejected: int = Field(description="Files that were found bad and left out.")
    progress: ScanInfo
    created_at: float


class RejectedInfo(Message):
    """A file that a scan left out."""

    name: str
    reason: str


class PreviewSample(Message):
    """One sample as a pipeline would take it, with what chance decides for it."""

    sample: int
    name: str
    label: int
    class_name: str
    width: int
    height: int
    steps: list[dict[str, Any]] = Field(description="The parameters drawn, one object a step.")


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
    shape: tuple[int, int, int] = Field(description="Height, width and channels of a sample.")
    dtype: str = Field(description="What batches are made of: uint8, or float32 if normalised.")


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
    on_bad: BadPolicy = Field(
        BadPolicy.FAIL, description="What a sample that cannot be used does to its batch."
    )
    max_bad_share: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Share of an epoch's samples that may be bad before the run fails; "
        "above 0, one always may.",
    )


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
    engine: str = Field(description="The engines that made its batches, separated by commas.")
    batch_size: int
    epochs: int
    seed: int
    strategy: str
    world_size: int
    on_bad: BadPolicy
    max_bad_share: float
    bad_samples: int = Field(description="Samples that were skipped or replaced, over all epochs.")
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


class BadSampleInfo(Message):
    """A sample that was skipped or replaced."""

    id: int = Field(description="Grows: ask for older ones with before.")
    epoch: int
    batch: int
    sample: int
    name: str
    reason: str
    substitute: int | None = Field(description="The sample that took its place.")
    action: str = Field(description="skipped or replaced")


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
    pipeline_hash: str
    plan: RunPlan
    on_bad: BadPolicy = BadPolicy.FAIL


class Lease(Message):
    """One batch given to one device until a deadline; also the body of a Celery message."""

    run: uuid.UUID
    epoch: int = Field(ge=0)
    index: int = Field(ge=0)
    token: int = Field(ge=1)
    losses: int = Field(
        0, ge=0, description="Attempts at this batch of which nothing was heard any more."
    )

    @classmethod
    def of(cls, run: uuid.UUID, batch: Batch) -> Self:
        """What a device must know of a batch that it is to make."""
        return cls(
            run=run, epoch=batch.epoch, index=batch.index, token=batch.token, losses=batch.losses
        )


class Claimed(Message):
    """A lease that a device may start on, as it stands now."""

    lease: Lease
    lasts_s: float = Field(description="After this many seconds it is given to someone else.")


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
    bad: list[Mishap] = Field(
        [], max_length=65_536, description="The samples of it that could not be used."
    )


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
    on_bad: BadPolicy = BadPolicy.FAIL
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
    samples: int = Field(description="How many it holds: bad ones may have been left out.")
    checksum: int = Field(ge=0, lt=2**64, description="Of its payload, as it was committed.")

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
            samples=batch.samples,
            checksum=batch.checksum,
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
