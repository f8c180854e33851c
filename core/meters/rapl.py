"""RAPL: counters of energy that processors keep, as the kernel shows them in the powercap tree.

A *zone* is a folder with a `name` and a counter of microjoules, `energy_uj`, which begins again at
0 after `max_energy_range_uj`. A package is a zone, and has zones below it: `dram`, the memory, is
no part of its figure, `core` and `uncore` are. `psys`, the whole platform, holds all of them. AMD's
processors are shown under the same names, without memory.

Range and draw say how often to look: 65 kJ, the least that is seen, last 160 s at 400 W. Who looks
less often than the counter wraps cannot know how often it did; a host is sampled every 2 s.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ddlp.core.energy import EnergyReading
from ddlp.core.meters.base import Clock, Meter, reading, unavailable
from ddlp.core.meters.tally import CounterTally
from ddlp.core.types import Domain

_PREFIX = "intel-rapl"
"""Of AMD's zones too; `intel-rapl-mmio` and `intel-rapl-tpmi` lead to the same counters."""
_MICRO = 1e-6

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Zone:
    """A folder of the tree that is metered."""

    name: str
    domain: Domain
    folder: Path

    @property
    def energy_file(self) -> Path:
        """Its counter."""
        return self.folder / "energy_uj"


class RaplMeter:
    """The counter of one zone, added up over wraps."""

    def __init__(self, zone: Zone, clock: Clock = time.monotonic) -> None:
        self.name = zone.name
        self.domain = zone.domain
        self._file = zone.energy_file
        self._clock = clock
        self._tally = CounterTally(_MICRO, _range_uj(zone.folder))
        self.read()

    def read(self) -> EnergyReading:
        """Joules since it was made; what passed while the file could not be read is left out."""
        try:
            value_uj = _counter(self._file)
        except (OSError, ValueError) as error:
            self._tally.lose()
            return unavailable(_remedy(self._file, error), self._tally.covered_s)
        self._tally.take(self._clock(), value_uj)
        return reading(
            self._tally.joules, f"RAPL: {self._file}{self._tally.mishaps}", self._tally.covered_s
        )


def find(root: Path, clock: Clock = time.monotonic) -> list[Meter]:
    """A meter for each package, memory and platform below `root`; none where there is no RAPL."""
    return [RaplMeter(zone, clock) for zone in zones(root)]


def zones(root: Path) -> list[Zone]:
    """What is to be metered, each once: of several ways to a counter, the first readable one."""
    by_name: dict[str, list[Zone]] = {}
    for folder in sorted(_folders(root), key=_order):
        zone = _zone(folder)
        if zone is not None:
            by_name.setdefault(zone.name, []).append(zone)
    return [next(filter(_readable, ways), ways[0]) for ways in by_name.values()]


def zone_names(root: Path) -> dict[int, str]:
    """The names of top zones by their number, which is what a Zeus daemon knows them by."""
    numbered = {folder.name.removeprefix(f"{_PREFIX}:"): folder for folder in _folders(root)}
    return {int(key): _name(folder) for key, folder in numbered.items() if key.isdecimal()}


def _folders(place: Path) -> Iterator[Path]:
    """Zones below a folder; sysfs shows them side by side and, behind links, nested."""
    try:
        inside = sorted(place.glob(f"{_PREFIX}*"))
    except OSError as error:
        log.warning("%s cannot be listed: %s", place, error)
        return
    for folder in inside:
        if ":" in folder.name:
            yield folder
        yield from _folders(folder)


def _order(folder: Path) -> tuple[bool, str, list[int]]:
    """The registers of the processor first, then other ways to them; zones by their numbers."""
    kind, *numbers = folder.name.split(":")
    return kind != _PREFIX, kind, [int(part) if part.isdecimal() else -1 for part in numbers]


def _zone(folder: Path) -> Zone | None:
    name = _name(folder)
    if name.startswith("package"):
        return Zone(name, Domain.PACKAGE, folder)
    if name.startswith("psys"):
        return Zone(name, Domain.PSYS, folder)
    if name == "dram":
        return Zone(f"dram-{_package_number(folder)}", Domain.DRAM, folder)
    return None  # a part of a package that is counted with it


def _package_number(folder: Path) -> str:
    """What follows `package-` in the name of the zone that this one belongs to."""
    parent = folder.name.rpartition(":")[0]
    beside = folder.with_name(parent)
    above = _name(beside if beside.exists() else folder.parent)
    return above.removeprefix("package-") if "-" in above else parent.rpartition(":")[2]


def _name(folder: Path) -> str:
    try:
        return (folder / "name").read_text().strip()[:48]
    except (OSError, ValueError):
        return ""


def _counter(file: Path) -> int:
    text = file.read_text().strip()
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"it holds {text[:20]!r}, not a number")
    return int(text)


def _range_uj(folder: Path) -> int | None:
    try:
        return _counter(folder / "max_energy_range_uj")
    except (OSError, ValueError):
        return None


def _readable(zone: Zone) -> bool:
    try:
        _counter(zone.energy_file)
    except (OSError, ValueError):
        return False
    return True


def _remedy(file: Path, error: OSError | ValueError) -> str:
    """Since CVE-2020-8694 only root may read these files unless somebody says otherwise."""
    if isinstance(error, FileNotFoundError):
        return f"{file} is not there; it is read again when it comes back"
    if isinstance(error, ValueError):
        return f"{file} cannot be used: {error}"
    reason = error.strerror or type(error).__name__
    return (
        f"{file} cannot be read ({reason}): allow it with sudo chmod a+r on this file, "
        "or run zeusd and set DDLP_ZEUSD_SOCKET"
    )
