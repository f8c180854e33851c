"""What a meter is: one domain of a host, with joules that grow for as long as it lives."""

from collections.abc import Callable
from typing import Protocol

from ddlp.core.energy import EnergyReading
from ddlp.core.types import Domain, Provenance

Clock = Callable[[], float]
"""Seconds that only grow, from any beginning."""

_LONGEST = 400
"""Characters that a reading's method may have."""


class Meter(Protocol):
    """One domain of a host; what it has counted never shrinks, also where a reading fails."""

    @property
    def name(self) -> str:
        """Such as package-0, dram-0, gpu-1."""

    @property
    def domain(self) -> Domain:
        """What it counts the energy of."""

    def read(self) -> EnergyReading:
        """Joules since it was made, and the seconds that they cover; a failure is a reading too."""


def reading(
    joules: float, method: str, period_s: float, provenance: Provenance = Provenance.MEASURED
) -> EnergyReading:
    """A figure that is known."""
    return EnergyReading(
        joules=joules, provenance=provenance, method=method[:_LONGEST], period_s=period_s
    )


def unavailable(reason: str, period_s: float) -> EnergyReading:
    """No figure; the reason says what to do."""
    return EnergyReading(
        joules=None,
        provenance=Provenance.UNAVAILABLE,
        method=reason[:_LONGEST],
        period_s=period_s,
    )
