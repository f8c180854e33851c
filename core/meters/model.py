"""Joules of what cannot be measured, from declared watts: every figure here is `modelled`.

A package is taken to draw `DDLP_CPU_IDLE_W` for each core at all times, and `DDLP_CPU_ACTIVE_W` on
top of that for each core that is busy. Memory draws `DDLP_DRAM_W_PER_GB` for what is in use.
"""

import time
from pathlib import Path
from typing import Protocol, runtime_checkable

from ddlp.core.energy import EnergyReading
from ddlp.core.meters.base import Clock, reading, unavailable
from ddlp.core.meters.proc import BusyTime, used_bytes
from ddlp.core.meters.tally import PowerTally
from ddlp.core.settings import Settings
from ddlp.core.types import Domain, Provenance

_GB = 1e9


@runtime_checkable
class Modelled(Protocol):
    """A meter that knows what it would count while nobody works."""

    @property
    def idle_w(self) -> float:
        """Those watts."""


class ModelledPackage:
    """All processors of a host.

    Args:
        proc: where the kernel says how busy they are.
        settings: the watts.
        why: why nothing is measured, in words.
        clock: seconds.
    """

    name = "package"
    domain = Domain.PACKAGE

    def __init__(
        self, proc: Path, settings: Settings, why: str = "", clock: Clock = time.monotonic
    ) -> None:
        self._busy = BusyTime(proc)
        self._file = proc / "stat"
        self._active_w, self._idle_w = settings.cpu_active_w, settings.cpu_idle_w
        self._why = why
        self._clock = clock
        self._started_s = self._last_s = clock()
        self._waited_j = 0.0

    @property
    def idle_w(self) -> float:
        """Watts of all cores while nobody works."""
        return self._busy.cores * self._idle_w

    def read(self) -> EnergyReading:
        """Joules since it was made."""
        now_s, cores = self._clock(), self._busy.cores
        self._waited_j += (now_s - self._last_s) * cores * self._idle_w
        self._last_s = now_s
        if not self._busy.look():
            reason = f"{self._file} cannot be read, so that not even a model knows; {self._why}"
            return unavailable(reason, now_s - self._started_s)
        method = (
            f"{self._busy.busy_s:.1f} busy core-seconds × {self._active_w:g} W (DDLP_CPU_ACTIVE_W) "
            f"+ {cores} cores × {self._idle_w:g} W (DDLP_CPU_IDLE_W) at all times"
        )
        joules = self._busy.busy_s * self._active_w + self._waited_j
        return _modelled(joules, method, self._why, now_s - self._started_s)


class ModelledMemory:
    """All memory of a host that is in use."""

    name = "dram"
    domain = Domain.DRAM

    def __init__(
        self, proc: Path, settings: Settings, why: str = "", clock: Clock = time.monotonic
    ) -> None:
        self._proc = proc
        self._w_per_gb = settings.dram_w_per_gb
        self._why = why
        self._clock = clock
        self._tally = PowerTally()
        self.read()

    def read(self) -> EnergyReading:
        """Joules since it was made; between two samples the use is taken to change evenly."""
        used = used_bytes(self._proc)
        if used is None:
            self._tally.lose()
            reason = f"{self._proc / 'meminfo'} cannot be read; {self._why}"
            return unavailable(reason, self._tally.covered_s)
        self._tally.take(self._clock(), used / _GB * self._w_per_gb)
        method = (
            f"memory in use × {self._w_per_gb:g} W a gigabyte (DDLP_DRAM_W_PER_GB), "
            f"now {used / _GB:.1f} GB{self._tally.mishaps}"
        )
        return _modelled(self._tally.joules, method, self._why, self._tally.covered_s)


def _modelled(joules: float, method: str, why: str, period_s: float) -> EnergyReading:
    said = f"{method}; not measured: {why}" if why else method
    return reading(joules, said, period_s, Provenance.MODELLED)
