"""The tables. Times are seconds since 1970 (UTC); 64-bit checksums are kept as 16 hex digits."""

import uuid
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, Integer, String, Text, UniqueConstraint, false, true
from sqlalchemy.orm import Mapped, mapped_column

from ddlp.server.figure_models import HostEnergy, Rollup, RunRead, RunTrace, Tally
from ddlp.server.model_base import ROW_ID, Base

__all__ = [
    "ApiKey",
    "AuditEvent",
    "BadSample",
    "Base",
    "BatchRow",
    "Calibration",
    "CertificateRow",
    "Dataset",
    "DatasetRoot",
    "Device",
    "Epoch",
    "HostEnergy",
    "KeptAnswer",
    "PipelineRow",
    "Rollup",
    "Run",
    "RunRead",
    "RunTrace",
    "ServerOwner",
    "Tally",
]


class Dataset(Base):
    """Encoded samples and labels at a place, with an immutable index."""

    __tablename__ = "datasets"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str] = mapped_column(String(80), unique=True)
    """`NAME`; of an earlier version `NAME@VERSION`: `server/versions.py`."""
    uri: Mapped[str] = mapped_column(Text)
    check: Mapped[str] = mapped_column(String(8))
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(Text)
    kind: Mapped[str | None] = mapped_column(String(16))
    version: Mapped[str] = mapped_column(String(64), default="")
    samples: Mapped[int] = mapped_column(default=0)
    classes: Mapped[list[str]] = mapped_column(JSON, default=list)
    total_bytes: Mapped[int] = mapped_column(default=0)
    rejected: Mapped[int] = mapped_column(default=0)
    index_path: Mapped[str] = mapped_column(Text)
    rescan: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What came of the last rescan, or that one is under way."""
    notes: Mapped[list[str]] = mapped_column(JSON, default=list, server_default="[]")
    """What the scan left out, or took in an unusual way."""
    as_classes: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether names like those of splits or of several labels are the names of classes."""
    origin: Mapped[str | None] = mapped_column(String(80))
    """The dataset that this one is packed from, by its name then; it may be gone since."""
    origin_id: Mapped[uuid.UUID | None] = mapped_column(index=True)
    packing: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """How it is packed here: `server/pack_plan.py`."""
    packed_with: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The options that its shards name, wherever they were packed."""
    created_at: Mapped[float]


class DatasetRoot(Base):
    """A folder below which datasets may be read, added while the server ran."""

    __tablename__ = "dataset_roots"

    path: Mapped[str] = mapped_column(Text, primary_key=True)
    added_at: Mapped[float]
    added_by: Mapped[str] = mapped_column(String(64))


class PipelineRow(Base):
    """A named pipeline with every default written out."""

    __tablename__ = "pipelines"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    hash: Mapped[str] = mapped_column(String(64))
    transforms: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    created_at: Mapped[float]


class Device(Base):
    """A registered producer of batches."""

    __tablename__ = "devices"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    prong: Mapped[str] = mapped_column(String(8))
    kind: Mapped[str] = mapped_column(String(32))
    slots: Mapped[int]
    host: Mapped[str] = mapped_column(String(255))
    engine: Mapped[str] = mapped_column(String(64))
    store: Mapped[str] = mapped_column(Text)
    serves: Mapped[str | None] = mapped_column(Text)
    store_key: Mapped[str | None] = mapped_column(String(128))
    room: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict, server_default="{}")
    energy: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    active_w: Mapped[float | None]
    idle_w: Mapped[float | None]
    power_source: Mapped[str] = mapped_column(String(200))
    incarnation: Mapped[uuid.UUID]
    registered_at: Mapped[float]
    last_seen_at: Mapped[float]
    drained_at: Mapped[float | None]
    """Since when it is given no work, because somebody said so."""
    clock_ahead_s: Mapped[float | None]
    """Its host's clock compared with the server's, when it registered last."""


class Run(Base):
    """One job: dataset, pipeline, batch size, epochs, seed, strategy, world size."""

    __tablename__ = "runs"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    dataset_id: Mapped[uuid.UUID | None] = mapped_column(
        ForeignKey("datasets.id", ondelete="SET NULL"), index=True
    )
    dataset: Mapped[str] = mapped_column(String(64))
    dataset_version: Mapped[str] = mapped_column(String(64))
    storage: Mapped[str | None] = mapped_column(String(16))
    pipeline: Mapped[str] = mapped_column(String(64))
    pipeline_hash: Mapped[str] = mapped_column(String(64))
    transforms: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    engine: Mapped[str] = mapped_column(String(64))
    engines: Mapped[str] = mapped_column(Text, default="")
    samples: Mapped[int]
    batch_size: Mapped[int]
    epochs: Mapped[int | None]
    """None where training decides how many there are."""
    seed: Mapped[int]
    strategy: Mapped[str] = mapped_column(String(32))
    reorder_window: Mapped[int | None]
    calibration: Mapped[int] = mapped_column(default=10, server_default="10")
    replay_of: Mapped[uuid.UUID | None]
    retry_of: Mapped[uuid.UUID | None]
    cpu_window: Mapped[int | None]
    """Batches of the CPU prong that may lie unconsumed; the server's setting where unset."""
    cpu_store_bytes: Mapped[int | None]
    csd_store_bytes: Mapped[int | None]
    world_size: Mapped[int]
    fixed_ranks: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether the world size was chosen when it was created; else the first trainers decide."""
    reshuffle: Mapped[bool] = mapped_column(default=True, server_default=true())
    tail: Mapped[str] = mapped_column(String(16), default="short", server_default="short")
    tokens: Mapped[int] = mapped_column(default=1, server_default="1")
    on_bad: Mapped[str] = mapped_column(String(16))
    max_bad_share: Mapped[float]
    state: Mapped[str] = mapped_column(String(16), index=True)
    reason: Mapped[str | None] = mapped_column(Text)
    held_up: Mapped[str | None] = mapped_column(Text)
    left: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether it is paused because its last trainer left: it goes on when one comes back."""
    trainers: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict, server_default="{}")
    """The session that holds each rank: `server/sessions.py`."""
    checkpoint: Mapped[list[int] | None] = mapped_column(JSON(none_as_null=True))
    """The last state that is known to have been taken: its epoch and position."""
    created_at: Mapped[float] = mapped_column(index=True)
    started_at: Mapped[float | None]
    ended_at: Mapped[float | None]
    details_removed_at: Mapped[float | None]
    """When its batches and its timeline were removed: `server/retention.py`."""


class Epoch(Base):
    """One epoch of a run: the frontier, what was dealt, and where it ended."""

    __tablename__ = "epochs"

    run_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(String(16))
    batches: Mapped[int]
    head: Mapped[int]
    tail: Mapped[int]
    short: Mapped[int] = mapped_column(default=0, server_default="0")
    """The first of the short batches that nobody has been given."""
    segments: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    dealt_head: Mapped[int]
    dealt_tail: Mapped[int]
    acknowledged: Mapped[list[int]] = mapped_column(JSON)
    settled: Mapped[dict[str, Any]]
    made_cpu: Mapped[int]
    made_csd: Mapped[int]
    consumed: Mapped[int]
    consumed_csd: Mapped[int] = mapped_column(default=0, server_default="0")
    origin: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """Where the run took over from another one, in this epoch or at its end."""
    sessions: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list, server_default="[]")
    """Which training session received what."""
    started_at: Mapped[float]
    ended_at: Mapped[float | None]


class BatchRow(Base):
    """One batch from its first lease on: both the lease and the ledger's entry.

    That it was consumed is not written here: its epoch knows how far each rank has come.
    """

    __tablename__ = "batches"

    run_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True
    )
    epoch: Mapped[int] = mapped_column(primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(String(16))
    prong: Mapped[str] = mapped_column(String(8))
    token: Mapped[int]
    attempt: Mapped[int]
    failures: Mapped[int]
    losses: Mapped[int]
    kills: Mapped[int]
    device: Mapped[str | None] = mapped_column(String(64))
    leased_at: Mapped[float]
    deadline: Mapped[float]
    ready_at: Mapped[float | None]
    location: Mapped[str | None] = mapped_column(Text)
    nbytes: Mapped[int]
    checksum: Mapped[str] = mapped_column(String(16))
    seconds: Mapped[float]
    cpu_s: Mapped[float]
    queue_s: Mapped[float] = mapped_column(default=0.0, server_default="0")
    fetch_s: Mapped[float] = mapped_column(default=0.0, server_default="0")
    decode_s: Mapped[float] = mapped_column(default=0.0, server_default="0")
    transform_s: Mapped[float] = mapped_column(default=0.0, server_default="0")
    write_s: Mapped[float] = mapped_column(default=0.0, server_default="0")
    fetched_bytes: Mapped[int] = mapped_column(default=0, server_default="0")
    peak_bytes: Mapped[int] = mapped_column(default=0, server_default="0")
    samples: Mapped[int]
    bad: Mapped[int]
    position: Mapped[int | None]
    from_tail: Mapped[bool]
    isolated: Mapped[bool]
    reason: Mapped[str | None] = mapped_column(Text)

    __table_args__ = (Index("ix_batches_position", "run_id", "epoch", "position"),)


class CertificateRow(Base):
    """The sealed certificate of an epoch that is over."""

    __tablename__ = "certificates"

    run_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True
    )
    epoch: Mapped[int] = mapped_column(primary_key=True)
    body: Mapped[str] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(String(64))
    sealed_at: Mapped[float]


class Calibration(Base):
    """How fast a device was at a dataset and a pipeline: the next run begins with it.

    Packed and original samples make the same batches, but not equally fast.
    """

    __tablename__ = "calibrations"

    dataset_version: Mapped[str] = mapped_column(String(64), primary_key=True)
    storage: Mapped[str] = mapped_column(String(16), primary_key=True)
    pipeline_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    device: Mapped[str] = mapped_column(String(64), primary_key=True)
    prong: Mapped[str] = mapped_column(String(8))
    batches: Mapped[int]
    sample_s: Mapped[float]
    updated_at: Mapped[float]


class BadSample(Base):
    """A sample that was skipped or replaced in the batch as it was made last."""

    __tablename__ = "bad_samples"

    id: Mapped[int] = mapped_column(ROW_ID, primary_key=True)
    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    epoch: Mapped[int]
    batch: Mapped[int]
    sample: Mapped[int]
    name: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    substitute: Mapped[int | None]

    __table_args__ = (
        UniqueConstraint("run_id", "epoch", "batch", "sample"),
        Index("bad_samples_of_a_run", "run_id", "sample"),
    )


class ApiKey(Base):
    """A key that may call the API; only its hash is kept."""

    __tablename__ = "api_keys"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[list[str]] = mapped_column(JSON)
    created_at: Mapped[float]
    last_used_at: Mapped[float | None]
    revoked_at: Mapped[float | None]


class KeptAnswer(Base):
    """What was answered to a request with an Idempotency-Key: `server/idempotency.py`."""

    __tablename__ = "kept_answers"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    """A hash of the key and of who sent it."""
    request: Mapped[str] = mapped_column(String(64))
    """A hash of method, path and body."""
    answer: Mapped[str] = mapped_column(Text)
    at: Mapped[float] = mapped_column(index=True)


class ServerOwner(Base):
    """The one server that may write, in the one row of its table: `server/ownership.py`."""

    __tablename__ = "server_owner"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    epoch: Mapped[int]
    """Raised by each server that becomes the owner."""
    host: Mapped[str] = mapped_column(String(255))
    pid: Mapped[int]
    address: Mapped[str] = mapped_column(Text)
    since: Mapped[float]
    seen_at: Mapped[float]
    queue_key: Mapped[str] = mapped_column(String(64))
    """The secret with which messages to workers are signed: `core/seal.py`."""


class AuditEvent(Base):
    """Who did what to what, and when."""

    __tablename__ = "audit_events"

    id: Mapped[int] = mapped_column(ROW_ID, primary_key=True)
    at: Mapped[float] = mapped_column(index=True)
    actor: Mapped[str] = mapped_column(String(64))
    action: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(128), index=True)
    detail: Mapped[dict[str, Any]]
