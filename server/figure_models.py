"""The tables of figures: what runs, devices, trainers and hosts come to."""

import uuid
from typing import Any

from sqlalchemy import ForeignKey, Index, LargeBinary, String, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column

from ddlp.server.model_base import ROW_ID, Base


def _sum(kind: type[int] | type[float] = float) -> Any:
    return mapped_column(default=kind(0), server_default="0")


class Figures:
    """What is added up, for a stretch of time or for an epoch; names say the unit."""

    batches: Mapped[int] = _sum(int)
    images: Mapped[int] = _sum(int)
    measured_images: Mapped[int] = _sum(int)
    measured_s: Mapped[float] = _sum()
    """Of trainers: what they received in measured time, as `core/throughput.py` defines it."""
    nbytes: Mapped[int] = _sum(int)
    fetched_bytes: Mapped[int] = _sum(int)
    busy_s: Mapped[float] = _sum()
    cpu_s: Mapped[float] = _sum()
    memory_byte_s: Mapped[float] = _sum()
    """Memory of the processes that made batches, times how long they took."""
    joules_modelled: Mapped[float] = _sum()
    joules_measured: Mapped[float] = _sum()
    queue_s: Mapped[float] = _sum()
    fetch_s: Mapped[float] = _sum()
    decode_s: Mapped[float] = _sum()
    transform_s: Mapped[float] = _sum()
    write_s: Mapped[float] = _sum()
    read_s: Mapped[float] = _sum()
    transfer_s: Mapped[float] = _sum()
    spent_training_s: Mapped[float] = _sum()
    spent_storage_s: Mapped[float] = _sum()
    spent_network_s: Mapped[float] = _sum()
    spent_decode_s: Mapped[float] = _sum()
    spent_csd_s: Mapped[float] = _sum()
    spent_transfer_s: Mapped[float] = _sum()
    spent_scheduling_s: Mapped[float] = _sum()
    spent_startup_s: Mapped[float] = _sum()


class Rollup(Figures, Base):
    """What happened in 1, 10 or 60 seconds of a run, by source: a prong, `trainer`, or `dram`."""

    __tablename__ = "rollups"

    id: Mapped[int] = mapped_column(ROW_ID, primary_key=True)
    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    at: Mapped[int]
    period_s: Mapped[int]
    source: Mapped[str] = mapped_column(String(16))

    __table_args__ = (
        UniqueConstraint("run_id", "at", "period_s", "source"),
        Index("ix_rollups_period_s", "period_s", "at"),
    )


class Tally(Figures, Base):
    """What one device or the trainers come to in one epoch of a run; kept as long as the run."""

    __tablename__ = "tallies"

    run_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True
    )
    epoch: Mapped[int] = mapped_column(primary_key=True)
    """-1 for what was added up before epochs were told apart."""
    source: Mapped[str] = mapped_column(String(16), primary_key=True)
    device: Mapped[str] = mapped_column(String(255), primary_key=True)
    """Of trainers: the prong that made what they received."""
    first_at: Mapped[int]
    last_at: Mapped[int]
    peak_bytes: Mapped[int] = _sum(int)
    emulated: Mapped[bool] = mapped_column(default=False, server_default=false())
    joules_unknown: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether something of it was made by a device whose watts nobody knows."""


class HostEnergy(Base):
    """What a host has used since it was first heard of, and what became of it."""

    __tablename__ = "host_energy"

    host: Mapped[str] = mapped_column(String(255), primary_key=True)
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    domain: Mapped[str] = mapped_column(String(16))
    provenance: Mapped[str] = mapped_column(String(16))
    method: Mapped[str] = mapped_column(String(400))
    period_s: Mapped[float] = _sum()
    joules: Mapped[float] = _sum()
    idle_j: Mapped[float] = _sum()
    runs_j: Mapped[float] = _sum()
    other_j: Mapped[float] = _sum()
    updated_at: Mapped[float]


class RunTrace(Base):
    """The last minutes of a run that is over, as its timeline showed them: compressed JSON."""

    __tablename__ = "run_traces"

    run_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True
    )
    body: Mapped[bytes] = mapped_column(LargeBinary)


class RunRead(Base):
    """What trainers of a run read by one path, and why by that one."""

    __tablename__ = "run_reads"

    run_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True
    )
    path: Mapped[str] = mapped_column(String(16), primary_key=True)
    reason: Mapped[str] = mapped_column(String(500), primary_key=True)
    batches: Mapped[int]
    bytes: Mapped[int]
