"""View models of energy: watts and joules by device, each with how it is known."""

from dataclasses import dataclass

from ddlp.core.messages import RunInfo
from ddlp.core.messages.reports import DeviceReport, Joules
from ddlp.core.units import JOULES, digits, joule_unit
from ddlp.server.figures import APART, PRONGS

_SOURCES = {
    "cpu": "CPU workers",
    "csd": "CSD",
    "dram": "memory",
    "gpu": "GPUs",
    APART: "idle",
}


@dataclass(frozen=True)
class EnergyRow:
    """One device and what it used, known in one way."""

    device: str
    what: str
    emulated: bool
    watts: str
    per_image: str
    total: str
    provenance: str
    method: str


@dataclass(frozen=True)
class EnergyView:
    """All that used energy for a run."""

    rows: list[EnergyRow]
    apart: list[EnergyRow]
    """What hosts and drives would have used anyway."""


@dataclass(frozen=True)
class _Units:
    """One unit for each column, so that its figures can be compared by eye."""

    per_image: str
    total: str


def energy_view(devices: list[DeviceReport], made: int) -> EnergyView:
    """Rows by device; what serves all images is divided by all that were made."""
    known = [(entry, joules) for entry in devices for joules in entry.energy]
    units = _Units(
        per_image=joule_unit(_per_image(entry, joules, made) for entry, joules in known),
        total=joule_unit(joules.joules for _, joules in known),
    )
    rows = [(entry.source, _row(entry, joules, made, units)) for entry, joules in known]
    return EnergyView(
        rows=[row for source, row in rows if source != APART],
        apart=[row for source, row in rows if source == APART],
    )


def _row(entry: DeviceReport, known: Joules, made: int, units: _Units) -> EnergyRow:
    return EnergyRow(
        device=entry.device or _SOURCES.get(entry.source, entry.source),
        what=_SOURCES.get(entry.source, entry.source),
        emulated=entry.emulated,
        watts=_watts(known),
        per_image=_with_unit(_per_image(entry, known, made), units.per_image),
        total=_with_unit(known.joules, units.total),
        provenance=known.provenance.value,
        method=known.method,
    )


def _per_image(entry: DeviceReport, known: Joules, made: int) -> float | None:
    images = entry.images if entry.source in PRONGS else made
    return known.joules / images if known.joules and images else None


def _with_unit(value: float | None, unit: str) -> str:
    return "—" if value is None else f"{_short(value / JOULES[unit])} {unit}"


def _short(value: float) -> str:
    """Three digits that count, but no more than three decimals: columns stay narrow."""
    return "< 0.001" if 0 < value < 0.0005 else digits(max(round(value, 3), 0.0))


def _watts(known: Joules) -> str:
    """The mean over the seconds that the joules cover."""
    if known.joules is None or not known.period_s:
        return "—"
    return f"{_short(known.joules / known.period_s)} W"


def joules_per_image(info: RunInfo) -> tuple[float | None, str]:
    """Over all that worked, with how it is known; unknown as soon as one part of it is."""
    made = {source: images for source, images in info.images.items() if images}
    working = [entry for entry in info.energy if not entry.apart]
    unknown = [entry for entry in working if entry.source in made and entry.joules is None]
    known = [entry for entry in working if entry.joules is not None]
    if unknown or not made or not known:
        return None, "unavailable"
    total = sum(entry.joules for entry in known if entry.joules is not None)
    how = " + ".join(sorted({entry.provenance for entry in known}))
    return total / sum(made.values()), how
