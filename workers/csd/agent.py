"""A real device: the same worker on the device's own Linux, reached over the network.

Nothing holds it back and nothing about it is pretended. Its energy is read from a file that the
device offers; without one it is modelled, from the drive's table of power states or from declared
watts, and without these it is unknown.
"""

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ddlp.core.energy import EnergyReading, PowerModel
from ddlp.core.errors import InvalidInput
from ddlp.core.meters.files import EnergyCounter, JouleSource, NoSource, PowerSamples
from ddlp.core.meters.nvme import NvmePower
from ddlp.core.settings import Settings
from ddlp.core.store import StoreAddress
from ddlp.core.types import DeviceKind, Provenance
from ddlp.workers.csd.driver import Description, Health, Pace

_SOURCES = ("csd_power_file", "csd_energy_file", "csd_nvme")
_UNKNOWN = (
    "unknown: set DDLP_CSD_ACTIVE_W, DDLP_CSD_POWER_FILE, DDLP_CSD_ENERGY_FILE or DDLP_CSD_NVME"
)


@dataclass(frozen=True)
class AgentCsd:
    """The machine that this process runs on, which is the drive."""

    store: StoreAddress
    active_w: float | None
    source: JouleSource
    table: NvmePower | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The device that the settings describe."""
        source = _source(settings)
        drive = settings.csd_nvme
        table = None if drive is None else NvmePower.of_controller(drive)
        return cls(settings.csd_store_address, settings.csd_active_w, source, table)

    def describe(self) -> Description:
        """What this machine is."""
        cores = os.cpu_count() or 1
        return Description(
            kind=DeviceKind.CSD,
            model=f"{platform.node()}: {cores} cores, {platform.machine()}, {platform.release()}",
            cores=cores,
            power=self._power(cores),
        )

    def _power(self, cores: int) -> PowerModel:
        if self.table is not None and self.table.active_w is not None:
            return PowerModel(
                active_w=self.table.active_w / cores,
                idle_w=self.table.idle_w,
                source=self.table.words[:200],
            )
        if self.active_w is not None:
            return PowerModel(active_w=self.active_w / cores, source="DDLP_CSD_ACTIVE_W")
        return PowerModel(active_w=None, source=_UNKNOWN)

    def start(self, slots: int) -> Pace:
        """It is as fast as it is; the meter begins to count."""
        self.source.joules()
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
        measured_j = self.source.joules()
        if measured_j is not None:
            return EnergyReading(
                joules=measured_j, provenance=Provenance.MEASURED, method=self.source.method
            )
        if self.table is not None and self.table.active_w is not None:
            return self.table.energy(busy_s, idle_s)
        if self.active_w is None:
            method = f"{self.source.method if self.table is None else self.table.words}; {_UNKNOWN}"
            return EnergyReading(
                joules=None, provenance=Provenance.UNAVAILABLE, method=method[:400]
            )
        return EnergyReading(
            joules=busy_s * self.active_w,
            provenance=Provenance.MODELLED,
            method=f"{busy_s:.1f} s busy × {self.active_w:g} W; its idle time is not counted",
        )


def _first_there(folder: Path) -> Path:
    """The folder, or the one that it would be made in."""
    return next(place for place in (folder, *folder.parents) if os.path.exists(place))


def _source(settings: Settings) -> JouleSource:
    given = [f"DDLP_{name.upper()}" for name in _SOURCES if getattr(settings, name) is not None]
    if len(given) > 1:
        raise InvalidInput(f"{' and '.join(given)} are set together; leave one and unset the rest")
    if settings.csd_energy_file is not None:
        return EnergyCounter(settings.csd_energy_file)
    power = settings.csd_power_file
    return PowerSamples(power) if power is not None else NoSource()
