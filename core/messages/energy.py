"""What a host says of the energy it uses."""

import uuid

from pydantic import Field

from ddlp.core.energy import EnergyReading
from ddlp.core.messages.base import Message
from ddlp.core.types import Domain


class DomainReading(Message):
    """One meter of a host."""

    name: str = Field(max_length=64, description="Such as package-0, dram-0, gpu-1.")
    domain: Domain
    reading: EnergyReading = Field(description="Since the sampler was started.")
    idle_w: float | None = Field(
        None,
        ge=0,
        le=1e6,
        description="Watts declared for an idle host, where the figure is modelled.",
    )


class HostSample(Message):
    """All meters of a host at one moment; figures grow, so that a lost sample loses nothing."""

    host: str = Field(max_length=255)
    sampler: uuid.UUID = Field(description="New whenever another process takes over.")
    period_s: float = Field(ge=0, le=1e10, description="Seconds since the sampler was started.")
    busy_s: float = Field(ge=0, le=1e14, description="Core-seconds that were not idle since then.")
    cores: int = Field(ge=1, le=65_536)
    used_bytes: int | None = Field(None, ge=0, lt=2**63, description="Memory in use now.")
    domains: list[DomainReading] = Field([], max_length=256)
