"""View models of runs side by side: what was different, what that changed, and how sure that is."""

from dataclasses import dataclass
from urllib.parse import urlencode

from ddlp.core.messages import RunInfo
from ddlp.core.messages.comparison import ComparisonInfo, FigureInfo, GroupInfo
from ddlp.core.messages.reports import PartReport, RunReport
from ddlp.core.units import JOULES, duration, joule_unit, joules_in, size
from ddlp.server.figures import APART
from ddlp.web.spent_views import SpentView, spent_view

MOST = 6
"""More lines than this cannot be told apart."""


@dataclass(frozen=True)
class ComparedRun:
    """One run of the comparison."""

    name: str
    number: int
    """Its colour and its dashes, from 1."""
    state: str
    live: bool
    words: str
    """What the charts show of it, in words."""
    spent: SpentView
    energy_known: bool
    """Whether there are watts to draw."""
    started_at: float | None
    make_base: str | None
    without: str


@dataclass(frozen=True)
class Cell:
    """A figure of one group of equal runs."""

    figure: str
    change: str
    verdict: str
    """`better`, `worse`, `same` or nothing."""


@dataclass(frozen=True)
class CompareView:
    """Runs side by side."""

    runs: list[ComparedRun]
    columns: list[str]
    """Runs by group; the first is the base."""
    differences: list[tuple[str, list[str]]]
    same: str
    figures: list[tuple[str, list[Cell]]]
    summary: str
    note: str


@dataclass(frozen=True)
class ChooseView:
    """The form for choosing runs, where there is nothing to compare yet."""

    problem: str | None
    choices: list[tuple[str, str, bool]]
    """Name, words, and whether it is chosen."""


@dataclass(frozen=True)
class _Figure:
    """How a figure is said."""

    label: str
    unit: str
    more_is_better: bool | None = None


_FIGURES = {
    "images_per_s": _Figure("delivered", "images/s", True),
    "seconds": _Figure("duration", "s", False),
    "wait_share": _Figure("trainer's time spent waiting", "share", False),
    "joules_per_image": _Figure("energy per image", "J", False),
    "cpu_s_per_1000_images": _Figure("CPU seconds per 1,000 images", "cpu s", False),
    "memory_byte_s_per_1000_images": _Figure("memory × time per 1,000 images", "byte s", False),
    "cpu_share_of_images": _Figure("images made by the CPU", "share"),
    "csd_share_of_images": _Figure("images made by the CSD", "share"),
}


def compare_view(
    found: ComparisonInfo, infos: list[RunInfo], reports: list[RunReport]
) -> CompareView:
    """All that the page shows, of runs in the order in which they were asked for."""
    names = [info.name for info in infos]
    emulated = any(info.emulated for info in infos)
    return CompareView(
        runs=[
            _run(info, report, place, names)
            for place, (info, report) in enumerate(zip(infos, reports, strict=True))
        ],
        columns=[", ".join(group.runs) for group in found.groups],
        differences=[
            (entry.condition, [value or "—" for value in entry.values])
            for entry in found.differences
        ],
        same=_same(found, reports),
        figures=[
            (figure.label, _cells(name, found.groups))
            for name, figure in _FIGURES.items()
            if any(_mean(group, name) is not None for group in found.groups)
        ],
        summary=_summary(found),
        note="Some batches were made by an emulated CSD." if emulated else "",
    )


def compare_address(names: list[str]) -> str:
    """The page that compares runs; the first is the base."""
    return f"/runs/compare?{urlencode({'run': names}, doseq=True)}"


def _run(info: RunInfo, report: RunReport, place: int, names: list[str]) -> ComparedRun:
    others = [name for name in names if name != info.name]
    return ComparedRun(
        name=info.name,
        number=place + 1,
        state=info.state.value,
        live=info.ended_at is None,
        words=_words(report),
        spent=spent_view(info.stall.spent_s, info.stall.sentence, live=False),
        energy_known=report.whole.joules_per_image is not None,
        started_at=info.started_at,
        make_base=compare_address([info.name, *others]) if place else None,
        without=compare_address(others),
    )


def _words(report: RunReport) -> str:
    """The lines of a run in the charts, for who does not see them."""
    whole = report.whole
    left = f"; {report.samples_left:,} samples left" if report.samples_left else ""
    return f"{_speed(whole)}{_power(whole)}{left}"


def _speed(whole: PartReport) -> str:
    if not whole.delivered:
        return "no trainer has taken an image yet"
    if whole.images_per_s is None:
        return f"{whole.delivered:,} images delivered; images/s not measured"
    measured = _amount(whole.measured_s, "s")
    return f"{whole.images_per_s:,.0f} images/s delivered on average over {measured}"


def _power(whole: PartReport) -> str:
    """Watts over the seconds that the joules cover, which are not those of the delivery."""
    known = [j for d in whole.devices if d.source != APART for j in d.energy if j.joules]
    covered_s = max((j.period_s or 0.0 for j in known), default=0.0)
    if whole.joules_per_image is None or not covered_s:
        return "; its energy is not known"
    watts = sum(j.joules or 0.0 for j in known) / covered_s
    how = " + ".join(whole.provenance)
    return f"; {watts:.3g} W on average over {_amount(covered_s, 's')} ({how})"


def _same(found: ComparisonInfo, reports: list[RunReport]) -> str:
    """The conditions that were equal, in one sentence."""
    apart = {entry.condition for entry in found.differences}
    equal = {name: value for name, value in reports[0].conditions.items() if name not in apart}
    words = ", ".join(f"{name} {value}" for name, value in equal.items())
    return f"The same everywhere: {words}." if words else "Nothing was the same everywhere."


def _mean(group: GroupInfo, name: str) -> float | None:
    entry = group.figures.get(name)
    return entry.mean if entry else None


def _cells(name: str, groups: list[GroupInfo]) -> list[Cell]:
    """A row: one unit in all of it, changes beside the first."""
    unit = _FIGURES[name].unit
    means = [_mean(group, name) for group in groups]
    if unit == "J":
        unit = joule_unit(means)
    return [
        _cell(name, group.figures.get(name), unit, _change_of(name, group, means[0]))
        for group in groups
    ]


def _cell(name: str, entry: FigureInfo | None, unit: str, change: str) -> Cell:
    if entry is None or entry.mean is None:
        return Cell("—", "", "")
    figure = _amount(entry.mean, unit)
    if entry.half_interval is not None:
        figure += f" ± {_amount(entry.half_interval, unit)}"
    return Cell(figure, change, _verdict(name, entry))


def _change_of(name: str, group: GroupInfo, base: float | None) -> str:
    """Relative to the base; of a share in points, since percent of percent mislead."""
    entry = group.figures.get(name)
    if entry is None or entry.change is None or base is None:
        return ""
    of, unit = (100 * base, "points") if _FIGURES[name].unit == "share" else (100.0, "%")
    words = f"{of * entry.change:+.1f} {unit}"
    if entry.change_low is None or entry.change_high is None:
        return words
    return f"{words} (95 %: {of * entry.change_low:+.1f} to {of * entry.change_high:+.1f} {unit})"


def _verdict(name: str, entry: FigureInfo) -> str:
    """Whether a change is for the better; an interval that holds no change decides nothing."""
    more = _FIGURES[name].more_is_better
    if entry.change is None or more is None:
        return ""
    sure = entry.change_low is None or entry.clear
    if not sure or abs(entry.change) < 0.0005:
        return "same"
    return "better" if (entry.change > 0) is more else "worse"


def _amount(value: float, unit: str) -> str:
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit in JOULES:
        return f"{joules_in(value, unit)} {unit}"
    if unit == "s":
        return duration(value) if value >= 60 else f"{value:.3g} s"
    if unit == "byte s":
        return f"{size(value)} × s"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _summary(found: ComparisonInfo) -> str:
    base, *others = found.groups
    if not others:
        return "These runs are repeats of each other: they differ in seed and name at most."
    return " ".join(_sentence(found, base, place) for place in range(1, len(found.groups)))


def _sentence(found: ComparisonInfo, base: GroupInfo, place: int) -> str:
    """What one group came to beside the base."""
    group = found.groups[place]
    me, them = _called(found, place), _called(found, 0)
    speed, energy = (group.figures.get(name) for name in ("images_per_s", "joules_per_image"))
    parts = []
    if speed is not None and speed.change is not None:
        parts.append(("delivered {} images/s", speed.change))
    if energy is not None and energy.change is not None:
        parts.append(("used {} joules per image", energy.change))
    if not parts:
        return f"What {me} changed against {them} is not known: one of them delivered nothing."
    (first, change), *rest = parts
    many, than = _than(change)
    words = [f"{first.format(many)} {than} {them}"]
    words += [said.format(_than(change)[0]) for said, change in rest]
    return f"{me} {' and '.join(words)}; {_sureness(speed, base, group)}."


def _called(found: ComparisonInfo, place: int) -> str:
    """A group by its strategy where only that tells it apart, or by its runs."""
    strategies = [entry.values for entry in found.differences if entry.condition == "strategy"]
    if len(found.differences) == 1 and strategies and strategies[0][place]:
        return str(strategies[0][place])
    return ", ".join(found.groups[place].runs)


def _than(change: float) -> tuple[str, str]:
    """How many more or fewer, and the word before what that is compared with."""
    percent = abs(100 * change)
    if percent < 0.05:
        return "as many", "as"
    words = f"{percent:.0f}" if percent >= 10 else f"{percent:.1f}"
    return f"{words} % {'more' if change > 0 else 'fewer'}", "than"


def _sureness(speed: FigureInfo | None, base: GroupInfo, group: GroupInfo) -> str:
    if speed is None or speed.change_low is None:
        few = len(base.runs) == len(group.runs) == 1
        runs = "with one run each" if few else "with so few runs"
        return f"{runs} it cannot be said how sure that is"
    counted = f"over {len(base.runs)} and {len(group.runs)} runs"
    clear = "is clear" if speed.clear else "is not clear"
    return f"the difference in images/s {clear} {counted}"
