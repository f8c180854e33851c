"""View models of how a dataset's samples are spread: bars for classes, histograms for sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from ddlp.core.messages.statistics import ClassCount, DatasetStatistics, HistogramInfo
from ddlp.core.units import size

SCALE = 1000
"""Width of a histogram, in its own units."""
HEIGHT = 100
_LEAST_HEIGHT = 1.5
"""A bin that holds anything is seen."""
_TICKS = 4
_EVEN = 1.05


@dataclass(frozen=True)
class ClassRow:
    """A class with its share of the largest one."""

    name: str
    samples: str
    percent: float
    address: str
    """The samples of this class."""


@dataclass(frozen=True)
class Bar:
    """One bin of a histogram."""

    x: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class Tick:
    """A value below a histogram."""

    percent: float
    label: str
    anchor: str


@dataclass(frozen=True)
class Histogram:
    """How one figure is spread."""

    title: str
    summary: str
    bars: list[Bar]
    ticks: list[Tick]


@dataclass(frozen=True)
class StatisticsView:
    """Class balance and sizes."""

    balance: str
    classes: list[ClassRow]
    left_out: str | None
    """What lies between the largest and the smallest, where not all classes are listed."""
    smallest: list[ClassRow]
    histograms: list[Histogram]


def statistics_view(name: str, found: DatasetStatistics) -> StatisticsView:
    """What the page of a dataset says of its samples."""
    most = max((entry.samples for entry in found.largest_classes), default=0)
    listed = len(found.largest_classes) + len(found.smallest_classes)
    histograms = [
        _histogram("Encoded size", found.encoded_bytes, _bytes),
        _histogram("Shorter side", found.short_side, _pixels),
    ]
    if found.smallest_classes:
        histograms.append(_histogram("Samples a class", found.class_samples, _count, "classes"))
    return StatisticsView(
        balance=_balance(found),
        classes=[_class_row(name, entry, most) for entry in found.largest_classes],
        left_out=(
            f"{found.classes - listed:,} classes in between" if listed < found.classes else None
        ),
        smallest=[_class_row(name, entry, most) for entry in found.smallest_classes],
        histograms=[histogram for histogram in histograms if histogram.bars],
    )


def _balance(found: DatasetStatistics) -> str:
    empty = f"{found.empty_classes:,} of {found.classes:,} classes have no sample at all. "
    words = empty if found.empty_classes else ""
    if found.imbalance is None:
        return words + "All samples are of one class."
    if found.imbalance < _EVEN:
        return words + "Balanced: all classes have about as many samples."
    return words + f"The largest class has {found.imbalance:.3g} times the samples of the smallest."


def _class_row(dataset: str, entry: ClassCount, most: int) -> ClassRow:
    return ClassRow(
        name=entry.name,
        samples=f"{entry.samples:,}",
        percent=round(100 * entry.samples / max(1, most), 2),
        address=f"/datasets/{quote(dataset)}?{urlencode({'class': entry.name})}#samples",
    )


def _histogram(
    title: str, found: HistogramInfo, said: Callable[[float], str], of: str = "samples"
) -> Histogram:
    most = max((entry.count for entry in found.bins), default=0)
    width = SCALE / max(1, len(found.bins))
    bars = [
        Bar(
            x=round(place * width, 2),
            width=round(width, 2),
            height=max(_LEAST_HEIGHT, HEIGHT * entry.count / most) if entry.count else 0.0,
            title=f"{said(entry.start)} up to {said(entry.end)}: {entry.count:,} {of}",
        )
        for place, entry in enumerate(found.bins)
    ]
    summary = f"from {said(found.smallest)} to {said(found.largest)}, {said(found.mean)} on average"
    return Histogram(title, summary, bars, _ticks(found, said))


def _ticks(found: HistogramInfo, said: Callable[[float], str]) -> list[Tick]:
    """Edges of bins, evenly chosen, the first and the last among them."""
    edges = [entry.start for entry in found.bins] + [entry.end for entry in found.bins[-1:]]
    last = len(edges) - 1
    shown = min(_TICKS, last)
    places = sorted({round(last * step / shown) for step in range(shown + 1)}) if shown else []
    return [
        Tick(
            percent=round(100 * place / last, 2),
            label=said(edges[place]),
            anchor="start" if place == 0 else "end" if place == last else "middle",
        )
        for place in places
    ]


def _bytes(value: float) -> str:
    return size(value).replace(".0 ", " ")


def _pixels(value: float) -> str:
    return f"{value:,.0f} px"


def _count(value: float) -> str:
    return f"{value:,.0f}"
