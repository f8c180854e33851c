"""An emulated device: a worker on this host that is held to a profile, and says so everywhere."""

import os
from dataclasses import dataclass, field
from typing import Self

from ddlp.core.energy import EnergyReading, PowerModel
from ddlp.core.settings import Settings
from ddlp.core.store import StoreAddress
from ddlp.core.types import DeviceKind, Provenance
from ddlp.workers.csd.driver import Description, Health, Pace
from ddlp.workers.csd.profile import CsdProfile, chosen_profile
from ddlp.workers.csd.throttle import Share, Throttle, hold


@dataclass
class EmulatedCsd:
    """A folder that stands for the drive, and processes that are as slow as its processor."""

    profile: CsdProfile
    store: StoreAddress
    _throttle: Throttle | None = field(default=None, init=False)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The device that the settings describe."""
        return cls(chosen_profile(settings), settings.csd_store_address)

    def describe(self) -> Description:
        """What is emulated."""
        profile = self.profile
        return Description(
            kind=DeviceKind.EMULATED_CSD,
            model=f"emulated CSD {profile.name}: {profile.in_words()}",
            cores=profile.cores.value,
            power=PowerModel(
                active_w=profile.active_w.value / profile.cores.value,
                idle_w=profile.idle_w.value,
                source=profile.power_source,
            ),
            profile=profile.name,
        )

    def start(self, slots: int) -> Pace:
        """Hold this process and its children to the profile; each has its part of the link."""
        share = Share(self.profile.cores.value, self.profile.speed.value, slots)
        self._throttle = hold(share)
        return Pace(self._throttle.speed, self.profile.link_bytes_per_s.value / slots)

    def stop(self) -> None:
        """Hold it no longer."""
        if self._throttle is not None:
            self._throttle.release()
            self._throttle = None

    def health(self) -> Health:
        """Well while it is held; a device that ran free would be faster than it says."""
        if self._throttle is None:
            return Health(False, "it is not started")
        broken = self._throttle.broken()
        if broken is not None:
            return Health(False, broken)
        return Health(True, self._throttle.in_words() + _too_much(self.profile))

    def energy(self, busy_s: float, idle_s: float) -> EnergyReading:
        """Modelled from the profile's watts."""
        active_w, idle_w = self.profile.active_w.value, self.profile.idle_w.value
        return EnergyReading(
            joules=busy_s * active_w + idle_s * idle_w,
            provenance=Provenance.MODELLED,
            method=f"{busy_s:.1f} s busy × {active_w:g} W + {idle_s:.1f} s idle × {idle_w:g} W "
            f"(emulated, profile {self.profile.name})",
        )


def _too_much(profile: CsdProfile) -> str:
    """What this host cannot give it is said."""
    cores = os.cpu_count() or 1
    if profile.host_cores <= cores:
        return ""
    return f"; this host has only {cores} cores, so it is slower than its profile"
