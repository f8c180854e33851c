"""The words of DDLP as enums: the code twin of the table in ARCHITECTURE.md."""

from enum import StrEnum


class Prong(StrEnum):
    """A side that produces batches: `cpu` from the head, `csd` from the tail."""

    CPU = "cpu"
    CSD = "csd"


class DeviceKind(StrEnum):
    """What a registered producer really is; emulation is never hidden."""

    HOST = "host"
    CSD = "csd"
    EMULATED_CSD = "emulated-csd"

    @property
    def emulated(self) -> bool:
        """Whether figures of this device come from an emulation."""
        return self is DeviceKind.EMULATED_CSD


class DeviceHealth(StrEnum):
    """Whether a device can be counted on."""

    LIVE = "live"
    RESTING = "resting"
    """It failed again and again: it is tried again after a pause, and others take over."""
    DRAINING = "draining"
    DRAINED = "drained"
    SILENT = "silent"


class RunState(StrEnum):
    """Where a run stands; `core.lifecycle` holds the allowed changes."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    """All its epochs are over, and some were left before their end."""
    FAILED = "failed"
    CANCELLED = "cancelled"


class BatchState(StrEnum):
    """Where one batch of one epoch stands."""

    LOST = "lost"
    """Wanted, and nobody makes it."""
    QUEUED = "queued"
    LEASED = "leased"
    READY = "ready"
    HANDED = "handed"
    """Made, and dealt to a rank as one of its steps; how many steps it has used up is counted."""

    @property
    def in_flight(self) -> bool:
        """Whether somebody is meant to be producing it."""
        return self in (BatchState.QUEUED, BatchState.LEASED)

    @property
    def made(self) -> bool:
        """Whether it was produced and nothing has happened to it since."""
        return self in (BatchState.READY, BatchState.HANDED)


class EpochState(StrEnum):
    """Where one epoch of a run stands."""

    OPEN = "open"
    COMPLETE = "complete"
    ABANDONED = "abandoned"


class BadPolicy(StrEnum):
    """What a sample that cannot be used does to its batch."""

    FAIL = "fail"
    """It ends the run."""
    SKIP = "skip"
    """It is left out: the batch is shorter."""
    REPLACE = "replace"
    """Another one of its class takes its place, always the same one."""


class TailPolicy(StrEnum):
    """What becomes of samples that do not fill a batch for each rank; ranks get equal counts."""

    SHORT = "short"
    """The last batches are shorter, evenly over the ranks: every sample once."""
    DROP = "drop"
    """They are left out of this epoch: every batch is full."""
    PAD = "pad"
    """The batches are filled up with samples from the epoch's beginning."""


class End(StrEnum):
    """An end of an epoch: batches are made and delivered from both."""

    HEAD = "head"
    TAIL = "tail"


class DatasetState(StrEnum):
    """Where a dataset stands on its way to being used."""

    PACKING = "packing"
    """Workers write its shards; it is scanned once they are all there."""
    SCANNING = "scanning"
    READY = "ready"
    FAILED = "failed"


class RootState(StrEnum):
    """Whether an allowed folder can be read now."""

    AVAILABLE = "available"
    MISSING = "missing"
    UNREADABLE = "unreadable"


class ReadPath(StrEnum):
    """The way that a batch's bytes take from its store to the trainer."""

    MMAP = "mmap"
    """Mapped: the file's own memory, without a copy where it lies on tmpfs."""
    COPY = "copy"
    """Plain reads into memory of the trainer: others may write to the file."""
    DIRECT = "direct"
    """O_DIRECT into memory of the trainer, past the page cache."""
    GDS = "gds"
    """From the drive straight into the accelerator's memory."""
    HTTP = "http"
    """From the host that made it."""
    S3 = "s3"
    """From an object store."""


class Provenance(StrEnum):
    """How a figure of energy was obtained."""

    MEASURED = "measured"
    MODELLED = "modelled"
    DECLARED = "declared"
    UNAVAILABLE = "unavailable"


class Stage(StrEnum):
    """A part of the way of a batch, each timed by whoever does it."""

    QUEUE = "queue"
    """From the lease until a process began with the batch."""
    FETCH = "fetch"
    """Reading encoded samples."""
    DECODE = "decode"
    """Decoding and resampling what is seen of them."""
    TRANSFORM = "transform"
    """Whatever else the pipeline does."""
    WRITE = "write"
    """Sealing the batch and writing it to its store."""
    READ = "read"
    """Bringing it from the store to the trainer's process."""
    TRANSFER = "transfer"
    """Making tensors of it on the device that trains."""


class Spending(StrEnum):
    """What a second of a trainer was spent on; every second has just one of these."""

    TRAINING = "training"
    STORAGE = "storage"
    """Waiting for encoded samples to be read, or for batches to be written or read."""
    NETWORK = "network"
    """Waiting for a batch that comes over the network."""
    DECODE = "decode"
    """Waiting for the host's processors to decode and transform."""
    CSD = "csd"
    """Waiting for a drive to make a batch."""
    TRANSFER = "transfer"
    """Waiting for a batch to become tensors on the device."""
    SCHEDULING = "scheduling"
    """Waiting for work to be given out, picked up or asked for; a paused run too."""
    STARTUP = "startup"
    """Waiting for the first batch after the trainer came."""


class Activity(StrEnum):
    """What somebody did during a span of the timeline."""

    MAKE = "make"
    READ = "read"
    TRANSFER = "transfer"
    WAIT = "wait"
    TRAIN = "train"


class Scope(StrEnum):
    """What a key may do; each scope may do all that those before it may."""

    READ = "read"
    """See everything but keys."""
    WORK = "work"
    """What workers and trainers do: register devices, take leases, fetch batches."""
    ADMIN = "admin"
    """Everything: make and end runs, add and remove datasets, allowed folders, keys."""

    def covers(self, wanted: "Scope") -> bool:
        """Whether a key of this scope may do what needs the other one."""
        order = list(Scope)
        return order.index(self) >= order.index(wanted)


class Domain(StrEnum):
    """What a meter of a host counts the energy of."""

    PACKAGE = "package"
    DRAM = "dram"
    PSYS = "psys"
    """The whole platform: holds package and DRAM, and is never added to them."""
    GPU = "gpu"
