"""View models of energy: watts and joules by device, each with how it is known."""

from dataclasses import dataclass

from ddlp.core.messages import RunInfo
from ddlp.core.messages.reports import DeviceReport, Joules
from ddlp.core.units import joules
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


def energy_view(devices: list[DeviceReport], made: int) -> EnergyView:
    """Rows by device; what serves all images is divided by all that were made."""
    rows = [(entry.source, row) for entry in devices for row in _rows(entry, made)]
    return EnergyView(
        rows=[row for source, row in rows if source != APART],
        apart=[row for source, row in rows if source == APART],
    )


def _rows(entry: DeviceReport, made: int) -> list[EnergyRow]:
    images = entry.images if entry.source in PRONGS else made
    return [
        EnergyRow(
            device=entry.device or _SOURCES.get(entry.source, entry.source),
            what=_SOURCES.get(entry.source, entry.source),
            emulated=entry.emulated,
            watts=_watts(known),
            per_image=joules(known.joules / images if known.joules and images else None),
            total=joules(known.joules),
            provenance=known.provenance.value,
            method=known.method,
        )
        for known in entry.energy
    ]


def _watts(known: Joules) -> str:
    """The mean over the seconds that the joules cover."""
    if known.joules is None or not known.period_s:
        return "—"
    return f"{known.joules / known.period_s:.3g} W"


def joules_per_image(info: RunInfo) -> tuple[str, str]:
    """Over all that worked, with how it is known; unknown as soon as one part of it is."""
    made = {source: images for source, images in info.images.items() if images}
    working = [entry for entry in info.energy if not entry.apart]
    unknown = [entry for entry in working if entry.source in made and entry.joules is None]
    known = [entry for entry in working if entry.joules is not None]
    if unknown or not made or not known:
        return "—", "unavailable"
    total = sum(entry.joules for entry in known if entry.joules is not None)
    how = " + ".join(sorted({entry.provenance for entry in known}))
    return joules(total / sum(made.values())), how
