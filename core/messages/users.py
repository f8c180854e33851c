"""What people and programs ask of the server, and what it answers."""

import uuid
from typing import Annotated, Any, Literal

from pydantic import Field

from ddlp.core.messages.base import DatasetName, Message, Name, RunName
from ddlp.core.messages.limits import (
    CPU_BYTES,
    CPU_WINDOW,
    CSD_BYTES,
    CpuWindow,
    LimitsInfo,
    StoreBytes,
)
from ddlp.core.messages.packing import PackingInfo
from ddlp.core.messages.reports import StallInfo
from ddlp.core.messages.training import ReadInfo
from ddlp.core.types import (
    BadPolicy,
    DatasetState,
    EpochState,
    RunState,
    TailPolicy,
)


class DatasetCreate(Message):
    """Register images: a folder with one subfolder a class, or a file that holds or lists them."""

    uri: str = Field(min_length=1, max_length=4096, description="Path on the server.")
    name: Name | None = Field(None, description="A name for it; the path's own where left out.")
    check: Literal["quick", "full"] = Field(
        "quick", description="quick reads each image's head, full decodes each image."
    )
    as_classes: bool = Field(
        False,
        description="Take folders such as train and val, and labels such as 0.5 or a|b, as the "
        "names of classes.",
    )


class ScanInfo(Message):
    """How far a scan has come."""

    found: int = Field(0, description="Samples found so far.")
    done: int = Field(0, description="Of these, looked at.")
    rejected: int = Field(0, description="Of these, found bad and left out.")
    bytes: int = Field(0, description="Encoded bytes of what was looked at.")


class RescanInfo(Message):
    """What came of the last rescan of a dataset, or how far it has come."""

    state: Literal["scanning", "done", "unchanged", "failed"]
    progress: ScanInfo | None = Field(None, description="How far it has come, while it scans.")
    reason: str | None = Field(None, description="Why it failed; the dataset is as it was.")
    earlier: str | None = Field(
        None, description="Name of the version before, which is kept while there are runs of it."
    )


class DatasetInfo(Message):
    """A registered dataset."""

    name: str
    uri: str
    state: DatasetState
    reason: str | None = Field(description="Why its scan or its packing failed.")
    kind: str | None = Field(
        description="The storage form: folder, manifest, tar, array or packed, once it is known."
    )
    check: str
    version: str = Field(description="Hash over names, sizes, times of change and labels.")
    samples: int
    classes: list[str]
    total_bytes: int
    rejected: int = Field(description="Files that were found bad and left out.")
    notes: list[str] = Field([], description="What else the scan left out or did not read.")
    as_classes: bool = Field(False, description="Whether names like splits are classes.")
    progress: ScanInfo
    packing: PackingInfo | None = Field(None, description="Of one that was packed here.")
    rescan: RescanInfo | None = Field(None, description="Of one that was rescanned.")
    versions: list[str] = Field(
        [], description="Names of earlier versions that are kept; told of a single dataset only."
    )
    lossy: bool | None = Field(
        None,
        description="Whether its shards hold other pixels than their origin; null if unpacked.",
    )
    pixels: str | None = Field(None, description="The same in words.")
    created_at: float


class DatasetRemoved(Message):
    """A dataset that was forgotten."""

    removed: str = Field(description="Its name.")
    folder: str | None = Field(description="Folder whose shards were removed with it, if any.")


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

    name: RunName | None = Field(None, description="A name for it; made up where left out.")
    dataset: DatasetName
    pipeline: Name = "imagenet-train"
    batch_size: int = Field(64, ge=1, le=65_536)
    epochs: int | None = Field(
        1, ge=1, le=100_000, description="Passes over the data; null to let training decide."
    )
    seed: int = Field(0, ge=0, lt=2**63)
    reshuffle: bool | None = Field(
        None,
        description="Whether each epoch has an order of its own. By default it has, unless nothing "
        "in the pipeline is random: then every epoch gives the same batches, as validation needs.",
    )
    strategy: str = Field("wrr", max_length=32)
    reorder_window: int | None = Field(
        None,
        ge=0,
        le=10**9,
        description="For bounded: how many batches the order may deviate from the one on paper.",
    )
    calibration: int = Field(
        10, ge=1, le=10_000, description="Batches a device makes before its rate is trusted."
    )
    world_size: int | None = Field(
        None,
        ge=1,
        le=4096,
        description="Ranks that share the run; taken from the first trainers by default.",
    )
    tail: TailPolicy = Field(
        TailPolicy.SHORT,
        description="What becomes of samples that do not fill a batch for each rank.",
    )
    on_bad: BadPolicy = Field(
        BadPolicy.SKIP, description="What a sample that cannot be used does to its batch."
    )
    max_bad_share: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Share of an epoch's samples that may be bad before the run fails; above 0, "
        "one always may. By default 0.001, or 10 samples if that is more, but at most a tenth.",
    )
    cpu_window: CpuWindow | None = Field(
        None, description=f"{CPU_WINDOW}; the server's setting where left out."
    )
    cpu_store_bytes: StoreBytes | None = Field(
        None, description=f"{CPU_BYTES}; the server's setting where left out."
    )
    csd_store_bytes: StoreBytes | None = Field(
        None, description=f"{CSD_BYTES}; the server's setting where left out."
    )


class RunClone(RunCreate):
    """Make a run like another one; what is given takes the place of what that one has."""

    dataset: DatasetName = Field("", description="That of the run that is cloned where left out.")


class RunDeleted(Message):
    """A run that was deleted."""

    deleted: str = Field(description="Its name.")


class StrategyChange(Message):
    """Go on with another strategy, from the next batch that is dealt."""

    strategy: str = Field(max_length=32)
    reorder_window: int | None = Field(None, ge=0, le=10**9, description="For bounded.")


class ReplayCreate(Message):
    """Make a run that delivers the batches of another one in the same order."""

    name: RunName | None = Field(None, description="A name for it; made up where left out.")


class RunExtend(Message):
    """Give a run more epochs."""

    epochs: int = Field(ge=1, le=100_000, description="How many it has then, those done included.")


class RetryCreate(Message):
    """Try a run that failed or was cancelled again, as a new run."""

    name: RunName | None = Field(
        None, description="A name for it; the old one with the next free number where left out."
    )


class CancelMany(Message):
    """Cancel several runs at once."""

    runs: list[Annotated[str, Field(max_length=255)]] = Field(
        min_length=1, max_length=200, description="Names or ids."
    )


class CancelInfo(Message):
    """What became of one run that was to be cancelled."""

    run: str = Field(description="As it was asked for.")
    cancelled: bool
    reason: str | None = Field(description="Why it was not cancelled.")


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
    begun: bool = Field(True, description="Whether any of its batches were handed to a trainer.")
    taken_over: int = Field(0, description="Batches of it that an earlier run had delivered.")
    delivered: dict[str, int] = Field(description="Batches consumed, by the prong that made them.")
    started_at: float
    ended_at: float | None


class EnergyInfo(Message):
    """Joules of one source in a run, with how they were obtained."""

    source: str = Field(description="cpu, csd, dram, gpu or idle.")
    joules: float | None
    joules_per_image: float | None
    provenance: str
    method: str
    period_s: float | None = Field(None, description="The seconds that the figure covers.")
    apart: bool = Field(False, description="Used anyway: not part of what the run is charged.")


class RunInfo(Message):
    """A run and how it stands."""

    id: uuid.UUID
    name: str
    dataset: str
    dataset_version: str
    storage: str | None = Field(
        description="Storage form of the dataset: folder, manifest, tar, array or packed."
    )
    pipeline: str
    pipeline_hash: str
    engine: str = Field(description="The engines that made its batches, separated by commas.")
    batch_size: int
    epochs: int | None = Field(description="Null where training decides.")
    seed: int
    strategy: str
    reorder_window: int | None
    calibration: int
    replay_of: uuid.UUID | None = Field(description="The run whose order it follows.")
    retry_of: uuid.UUID | None = Field(None, description="The run that it tries again.")
    world_size: int
    fixed_ranks: bool = Field(
        False, description="Whether the world size was chosen; else the first trainers set it."
    )
    reshuffle: bool = Field(True, description="Whether each epoch has an order of its own.")
    tail: TailPolicy
    on_bad: BadPolicy
    max_bad_share: float
    limits: LimitsInfo | None = Field(
        None, description="How much of it may lie unconsumed; left out of lists of runs."
    )
    bad_samples: int = Field(description="Samples that were skipped or replaced, over all epochs.")
    state: RunState
    reason: str | None
    samples: int
    batches: int = Field(description="Batches an epoch.")
    images: dict[str, int] = Field(description="Images made so far, by prong.")
    delivered: int = Field(0, description="Images that trainers received.")
    delivered_images_per_s: float | None = Field(
        None, description="Throughput over the whole run; null where it was not measured."
    )
    measured_s: float = Field(0.0, description="Time in which the throughput was measured.")
    images_per_s: dict[str, float | None] = Field(
        description="The throughput by the prong that made the images; the parts add up to it."
    )
    samples_left: int | None = Field(
        None, description="Of an incomplete run: samples that no trainer received."
    )
    wait_share: float | None = Field(description="Share of the trainer's time spent waiting.")
    stall: StallInfo = Field(description="Where the trainer's seconds went, over the whole run.")
    energy: list[EnergyInfo]
    emulated: list[str] = Field(description="Prongs whose devices are emulated.")
    reads: list[ReadInfo] = Field(description="Bytes that trainers read, by path and reason.")
    held_up: str | None = Field(
        None, description="Why it makes nothing for now: a full store, or no device that lives."
    )
    created_at: float
    started_at: float | None
    ended_at: float | None
    details_removed_at: float | None = Field(
        None, description="When its batches and its timeline were removed, for their age."
    )


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
