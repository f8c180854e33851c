"""Joules from one file: how a device's counter of energy or its momentary power is read."""

import logging
import time
from pathlib import Path
from typing import Protocol

from ddlp.core.meters.base import Clock
from ddlp.core.meters.tally import PowerTally

_MICRO = 1e-6

log = logging.getLogger(__name__)


class JouleSource(Protocol):
    """Whatever gives joules of one device, which knows by itself what they are of."""

    @property
    def method(self) -> str:
        """How its figures are obtained, in words."""

    def joules(self) -> float | None:
        """Energy since it was first asked; None where it cannot be read."""


class NoSource:
    """A device that reports nothing."""

    method = "the device reports neither power nor energy"

    def joules(self) -> float | None:
        """Nothing is known."""
        return None


class EnergyCounter:
    """A counter of microjoules, as hwmon's `energy1_input` or powercap's `energy_uj`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last_uj: int | None = None
        self._sum_uj = 0

    @property
    def method(self) -> str:
        """How its figures are obtained."""
        return f"the device's counter of microjoules {self._path}"

    def joules(self) -> float | None:
        """What was counted since the first reading, over wraps and resets too."""
        now_uj = _number(self._path)
        if now_uj is None:
            return None
        if self._last_uj is not None:
            more_uj = now_uj - self._last_uj
            self._sum_uj += more_uj if more_uj >= 0 else self._after_wrap(now_uj, self._last_uj)
        self._last_uj = now_uj
        return self._sum_uj * _MICRO

    def _after_wrap(self, now_uj: int, last_uj: int) -> int:
        """Powercap says where its counter wraps; another one that goes back was reset to 0."""
        range_file = self._path.with_name("max_energy_range_uj")
        range_uj = _number(range_file) if range_file.exists() else None
        return now_uj if range_uj is None else max(0, range_uj - last_uj) + now_uj


class PowerSamples:
    """A file that says how many microwatts are drawn right now, as hwmon's `power1_input`."""

    def __init__(self, path: Path, clock: Clock = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._tally = PowerTally()

    @property
    def method(self) -> str:
        """How its figures are obtained."""
        said = f"samples of the device's microwatts {self._path}, added up over time"
        return said + self._tally.mishaps

    def joules(self) -> float | None:
        """What the samples come to; what was drawn in a gap is not guessed."""
        power_uw = _number(self._path)
        if power_uw is None:
            self._tally.lose()
            return None
        self._tally.take(self._clock(), power_uw * _MICRO)
        return self._tally.joules


def _number(path: Path) -> int | None:
    try:
        found = int(path.read_text())
    except (OSError, ValueError) as error:
        log.warning("%s cannot be read: %s", path, error)
        return None
    return found if found >= 0 else None
