"""The host's own CPU pool behind a driver's interface, so that a worker knows no difference."""

from dataclasses import dataclass, field

from ddlp.core.energy import EnergyReading, PowerModel
from ddlp.core.settings import Settings
from ddlp.core.store import StoreAddress
from ddlp.core.types import DeviceKind, Provenance
from ddlp.workers.csd.driver import Description, Health, Pace


@dataclass(frozen=True)
class HostCpu:
    """No device at all: nothing is to be made ready, and nothing holds it back."""

    settings: Settings = field(default_factory=Settings)

    @property
    def store(self) -> StoreAddress:
        """Memory of the host, as a rule."""
        return self.settings.cpu_store_address

    def describe(self) -> Description:
        """As many cores as processes were asked for."""
        return Description(
            kind=DeviceKind.HOST,
            model="the host's CPU",
            cores=self.settings.cpu_workers_used,
            power=PowerModel(active_w=self.settings.cpu_active_w, source="DDLP_CPU_ACTIVE_W"),
        )

    def start(self, slots: int) -> Pace:
        """It is ready."""
        return Pace()

    def stop(self) -> None:
        """Nothing was done."""

    def health(self) -> Health:
        """As well as the worker."""
        return Health(True, "nothing holds it back")

    def energy(self, busy_s: float, idle_s: float) -> EnergyReading:
        """Modelled from the watts that a busy core adds."""
        cores, active_w = self.settings.cpu_workers_used, self.settings.cpu_active_w
        return EnergyReading(
            joules=busy_s * cores * active_w,
            provenance=Provenance.MODELLED,
            method=f"{busy_s:.1f} s busy × {cores} cores × {active_w:g} W (DDLP_CPU_ACTIVE_W)",
        )
