"""View models of a forecast: what a run would come to, in words and figures."""

from dataclasses import dataclass

from ddlp.core.messages.outlook import ProngForecast, RunForecast
from ddlp.core.types import Prong
from ddlp.core.units import duration, joules, size
from ddlp.web.tiles import Tile

SCALE = 1000
"""Width of the bar, in its own units."""
_UNKNOWN = "—"
_ENDS = {Prong.CPU: "CPU from the head", Prong.CSD: "CSD from the tail"}


@dataclass(frozen=True)
class ProngRow:
    """What one prong would do."""

    prong: str
    label: str
    emulated: bool
    slots: str
    rate: str
    images: str
    joules: str
    provenance: str
    method: str
    held: str


@dataclass(frozen=True)
class ForecastView:
    """A forecast, ready to be shown."""

    figures: list[Tile]
    prongs: list[ProngRow]
    meeting: str | None
    cpu_width: int | None
    """How much of the bar the CPU prong fills; None where that cannot be told."""
    batches: str
    notes: list[str]


@dataclass(frozen=True)
class CheckView:
    """What is to be said of the form as it stands."""

    problems: dict[str, str]
    """By field; the first of each."""
    elsewhere: list[str]
    """Problems of what is no field of the form."""
    forecast: ForecastView | None
    command: str

    @property
    def usable(self) -> bool:
        """Whether a run could be made of it."""
        return not self.problems and not self.elsewhere


def check_view(found: RunForecast, command: str, fields: set[str]) -> CheckView:
    """What is wrong with each field, and what the run would come to."""
    problems: dict[str, str] = {}
    for entry in found.problems:
        if entry.field in fields:
            problems.setdefault(entry.field, _sentence(entry.problem))
    others = [f"{e.field}: {e.problem}" for e in found.problems if e.field not in fields]
    known = found.batches is not None
    return CheckView(problems, others, forecast_view(found) if known else None, command)


def forecast_view(found: RunForecast) -> ForecastView:
    """A forecast in words and figures."""
    batches, nbytes = found.batches or 0, found.batch_bytes or 0
    meeting = found.meeting_point
    return ForecastView(
        figures=_figures(found),
        prongs=[_row(entry) for entry in found.prongs],
        meeting=None if meeting is None else f"They would meet near batch {meeting:,}.",
        cpu_width=None if meeting is None or not batches else SCALE * meeting // batches,
        batches=f"{batches:,} batches an epoch, {size(nbytes)} each",
        notes=found.notes,
    )


def _figures(found: RunForecast) -> list[Tile]:
    limit = found.trainer_per_s is not None and found.images_per_s == found.trainer_per_s
    return [
        Tile(_number(found.images_per_s), "images/s" + (", as the trainer takes" * limit)),
        Tile(_time(found.epoch_s), "an epoch"),
        Tile(_time(found.run_s), "the run"),
        Tile(joules(found.joules_per_image), "energy an image", found.provenance.value),
        Tile(joules(found.joules), "energy of the run", found.provenance.value),
    ]


def _row(entry: ProngForecast) -> ProngRow:
    return ProngRow(
        prong=entry.prong.value,
        label=_ENDS[entry.prong],
        emulated=entry.emulated,
        slots=f"{entry.slots:,}" if entry.devices else "no live device",
        rate=_number(entry.images_per_s),
        images=_UNKNOWN if entry.images is None else f"{entry.images:,}",
        joules=joules(entry.joules_per_image),
        provenance=entry.provenance.value,
        method=entry.method,
        held=f"{entry.held_batches:,} ({size(entry.held_bytes)})",
    )


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:,.0f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return _UNKNOWN
    return duration(seconds) if seconds >= 1 else "under 1 s"


def _sentence(problem: str) -> str:
    return problem[:1].upper() + problem[1:]
