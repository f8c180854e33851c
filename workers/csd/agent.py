"""A real device: the same worker on the device's own Linux, reached over the network.

Nothing holds it back and nothing about it is pretended. Its energy is read from a file that the
device offers; without one it is modelled from declared watts, and without these it is unknown.
"""

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ddlp.core.energy import EnergyReading, PowerModel
from ddlp.core.errors import InvalidInput
from ddlp.core.settings import Settings
from ddlp.core.store import StoreAddress
from ddlp.core.types import DeviceKind, Provenance
from ddlp.workers.csd.driver import Description, Health, Pace
from ddlp.workers.csd.meter import EnergyCounter, Meter, NoMeter, PowerSamples

_UNKNOWN = "unknown: set DDLP_CSD_ACTIVE_W, DDLP_CSD_POWER_FILE or DDLP_CSD_ENERGY_FILE"


@dataclass(frozen=True)
class AgentCsd:
    """The machine that this process runs on, which is the drive."""

    store: StoreAddress
    active_w: float | None
    meter: Meter

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The device that the settings describe."""
        return cls(settings.csd_store_address, settings.csd_active_w, _meter(settings))

    def describe(self) -> Description:
        """What this machine is."""
        cores = os.cpu_count() or 1
        source = _UNKNOWN if self.active_w is None else "DDLP_CSD_ACTIVE_W"
        return Description(
            kind=DeviceKind.CSD,
            model=f"{platform.node()}: {cores} cores, {platform.machine()}, {platform.release()}",
            cores=cores,
            power=PowerModel(
                active_w=None if self.active_w is None else self.active_w / cores, source=source
            ),
        )

    def start(self, slots: int) -> Pace:
        """It is as fast as it is; the meter begins to count."""
        self.meter.joules()
        return Pace()

    def stop(self) -> None:
        """Nothing was done."""

    def health(self) -> Health:
        """Whether batches can be written where they belong."""
        folder = self.store.folder
        there = None if folder is None else _first_there(folder)
        if there is not None and not os.access(there, os.W_OK | os.X_OK):
            return Health(False, f"{there} cannot be written to; mount it, or set DDLP_CSD_STORE")
        return Health(True, f"batches are written to {self.store}")

    def energy(self, busy_s: float, idle_s: float) -> EnergyReading:
        """Measured where the device offers a file, else modelled, else unknown."""
        measured_j = self.meter.joules()
        if measured_j is not None:
            return EnergyReading(
                joules=measured_j, provenance=Provenance.MEASURED, method=self.meter.method
            )
        if self.active_w is None:
            method = f"{self.meter.method}; {_UNKNOWN}"
            return EnergyReading(joules=None, provenance=Provenance.UNAVAILABLE, method=method)
        return EnergyReading(
            joules=busy_s * self.active_w,
            provenance=Provenance.MODELLED,
            method=f"{busy_s:.1f} s busy × {self.active_w:g} W; its idle time is not counted",
        )


def _first_there(folder: Path) -> Path:
    """The folder, or the one that it would be made in."""
    return next(place for place in (folder, *folder.parents) if os.path.exists(place))


def _meter(settings: Settings) -> Meter:
    power, energy = settings.csd_power_file, settings.csd_energy_file
    if power is not None and energy is not None:
        raise InvalidInput("DDLP_CSD_POWER_FILE and DDLP_CSD_ENERGY_FILE are both set; unset one")
    if energy is not None:
        return EnergyCounter(energy)
    return PowerSamples(power) if power is not None else NoMeter()
