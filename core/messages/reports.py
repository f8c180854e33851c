"""What a run cost: seconds, bytes and joules, by device, stage and epoch."""

import uuid
from typing import Any

from pydantic import Field

from ddlp.core.messages.base import Message
from ddlp.core.types import Provenance, Spending, Stage


class StallInfo(Message):
    """Where the trainer's seconds went; ranks are added up."""

    spent_s: dict[Spending, float]
    shares: dict[Spending, float] = Field(description="Parts of the whole: they sum to 1.")
    limited_by: Spending | None
    sentence: str = Field(description="What limits the run, and what would change it.")


class Joules(Message):
    """An amount of energy, and how it is known."""

    joules: float | None = Field(description="Null where it is not known.")
    provenance: Provenance
    method: str
    period_s: float | None = Field(None, description="The seconds that it covers.")
    per_image: float | None = None
    by_stage: dict[Stage, float] = Field({}, description="Divided by how long each stage took.")


class DeviceReport(Message):
    """What one device did for a run, or for one epoch of it."""

    source: str = Field(description="cpu, csd, dram, gpu, or idle.")
    device: str = Field(description="A device's name; a host's for dram, gpu and idle.")
    emulated: bool
    batches: int
    images: int
    busy_s: float
    cpu_s: float
    stages_s: dict[Stage, float]
    fetched_bytes: int
    written_bytes: int
    peak_bytes: int
    memory_byte_s: float
    energy: list[Joules] = Field(description="One entry for each way in which it is known.")


class PartReport(Message):
    """A run, or one epoch of it."""

    images: int = Field(description="Made by all devices.")
    delivered: int = Field(description="Taken by the trainers.")
    seconds: float | None = Field(description="From its start to its end, or to now.")
    measured_s: float = Field(0.0, description="Time in which the throughput was measured.")
    images_per_s: float | None = Field(
        description="Throughput: docs/telemetry.md defines it; null where it was not measured."
    )
    stall: StallInfo
    devices: list[DeviceReport]
    cpu_s_per_1000_images: float | None
    memory_byte_s_per_1000_images: float | None
    joules_per_image: float | None = Field(
        description="All that worked together, without idle; null as soon as a part is unknown."
    )
    provenance: list[Provenance]
    idle_joules: float | None = Field(description="Of the hosts and drives, apart from the rest.")


class EpochReport(PartReport):
    """One epoch of a run."""

    epoch: int


class RunReport(Message):
    """Where every second and every joule of a run went."""

    id: uuid.UUID
    run: str
    state: str
    samples_left: int | None = Field(None, description="Of an incomplete run: not delivered.")
    conditions: dict[str, Any] = Field(description="What decides the run, in words.")
    whole: PartReport
    epochs: list[EpochReport] = Field(description="The last ones, the newest first.")


class HostMeterInfo(Message):
    """One meter of a host, and what became of the energy that it counted."""

    host: str
    name: str
    domain: str
    joules: float
    idle_j: float
    runs_j: float
    other_j: float
    provenance: Provenance
    method: str
    period_s: float
    updated_at: float
