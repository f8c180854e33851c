"""Energy: what a device is declared to draw, and what it says it has used.

Where no counter can be read, joules are modelled: busy seconds times declared watts. What is not
known is None and `unavailable`, never 0.
"""

from typing import Self

from pydantic import ConfigDict, Field, model_validator

from ddlp.core.bounds import Bounded
from ddlp.core.types import Provenance


class PowerModel(Bounded):
    """What a device is declared to draw; every figure made from it is `modelled`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    active_w: float | None = Field(
        ge=0, le=10_000, description="Watts one busy slot adds; null where nobody has said."
    )
    idle_w: float | None = Field(
        None,
        ge=0,
        le=10_000,
        description="Watts the whole device draws while it waits; no run is charged for them.",
    )
    source: str = Field(max_length=200, description="Where the figures come from.")

    @property
    def provenance(self) -> Provenance:
        """How figures made from this model were obtained."""
        return Provenance.UNAVAILABLE if self.active_w is None else Provenance.MODELLED

    def joules(self, busy_s: float) -> float | None:
        """Energy of so many busy seconds; None where the watts are not known."""
        return None if self.active_w is None else self.active_w * busy_s


class EnergyReading(Bounded):
    """What a device has used since it was started, and how that is known."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    joules: float | None = Field(ge=0, le=1e15, description="Null where it is not known.")
    provenance: Provenance
    method: str = Field(max_length=400, description="How the figure was obtained, in words.")
    period_s: float | None = Field(
        None, ge=0, le=1e10, description="Seconds that the figure covers, where they are known."
    )

    @model_validator(mode="after")
    def _known_or_unavailable(self) -> Self:
        if (self.joules is None) != (self.provenance is Provenance.UNAVAILABLE):
            raise ValueError("joules are null if and only if they are unavailable")
        return self
