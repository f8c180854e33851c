"""The interface of a computational storage device (CSD): what a worker asks of the drive it is on.

A driver is an object that describes one device, makes it ready, says how it is and what energy it
used, and names the place that batches are written to. All else, from the claim of a batch to its
publication, is the worker's and the same everywhere. `docs/csd.md` shows how to write one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ddlp.core.energy import EnergyReading, PowerModel
from ddlp.core.errors import InvalidInput
from ddlp.core.settings import Settings
from ddlp.core.store import StoreAddress
from ddlp.core.types import DeviceKind

__all__ = ["CsdDriver", "Description", "EnergyReading", "Health", "MakeDriver", "Pace"]


@dataclass(frozen=True)
class Description:
    """What a device is, known before it is started."""

    kind: DeviceKind
    model: str
    """What it is in words."""
    cores: int
    """As many processes make batches on it unless something else is asked for."""
    power: PowerModel
    """Of one busy core, and of the whole device while it waits."""
    profile: str | None = None
    """The name of its profile, if it is emulated."""

    def __post_init__(self) -> None:
        if self.cores < 1:
            raise InvalidInput(f"a device with {self.cores} cores cannot make batches")

    @property
    def emulated(self) -> bool:
        """Whether its figures come from an emulation."""
        return self.kind.emulated

    def power_of_a_slot(self, slots: int) -> PowerModel:
        """What one of so many processes draws; on a CSD, where there are more, they share cores.

        A host's processes are charged for the CPU time they had, a CSD's for the time it took.
        """
        if self.kind is DeviceKind.HOST or self.power.active_w is None or slots <= self.cores:
            return self.power
        shared_w = self.power.active_w * self.cores / slots
        return self.power.model_copy(update={"active_w": shared_w})


@dataclass(frozen=True)
class Pace:
    """What a process must do by itself to be as slow as the device; by default nothing."""

    speed: float = 1.0
    """Below 1 it sleeps, so that a batch takes as long as on a processor of this speed."""
    link_bytes_per_s: float | None = None
    """A batch takes so much longer as this link needs for it; None adds nothing."""


@dataclass(frozen=True)
class Health:
    """Whether a device can make batches, and why it is said so."""

    ok: bool
    reason: str


class CsdDriver(Protocol):
    """One device, as its worker sees it."""

    @property
    def store(self) -> StoreAddress:
        """Where batches are written: as a rule a folder on the drive."""

    def describe(self) -> Description:
        """What the device is; asked once, before it is started."""

    def start(self, slots: int) -> Pace:
        """Make it ready for so many processes, before the first of them is forked."""

    def stop(self) -> None:
        """Undo what `start` did; called once, after the last process has ended."""

    def health(self) -> Health:
        """Whether it can make batches now; one that cannot is not announced as living."""

    def energy(self, busy_s: float, idle_s: float) -> EnergyReading:
        """Joules since the start; a second in which half of its cores worked is half of either."""


MakeDriver = Callable[[Settings], CsdDriver]
"""What the registry and entry points hold: makes a driver from the settings."""
