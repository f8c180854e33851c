"""View models of single samples: the grid of pictures, and those that runs could not use."""

from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from ddlp.core.messages.statistics import QuarantinedInfo, QuarantinePage, SampleInfo, SamplePage
from ddlp.core.units import size

GRID = 24
"""Samples on a page of the grid."""
SHUFFLED = 1
"""The seed at first: all classes are seen; 0 would keep the samples' own order."""
_MOST_LISTED = 300
"""Up to so many classes are offered as a list; beyond that one types the name."""


@dataclass(frozen=True)
class Shown:
    """The dataset whose samples are shown."""

    name: str
    version: str
    classes: list[str]


@dataclass(frozen=True)
class Asked:
    """Which samples are to be shown."""

    class_name: str | None = None
    seed: int = SHUFFLED
    offset: int = 0

    def query(self, offset: int) -> str:
        """The same samples from another one on, as an address says it."""
        given = {"class": self.class_name or "", "seed": self.seed, "at": offset}
        usual = {"class": "", "seed": SHUFFLED, "at": 0}
        return urlencode({name: value for name, value in given.items() if value != usual[name]})


@dataclass(frozen=True)
class Cell:
    """One sample in the grid."""

    picture: str
    name: str
    label: str
    words: str


@dataclass(frozen=True)
class GridView:
    """Some samples of a dataset."""

    dataset: str
    cells: list[Cell]
    words: str
    classes: list[str]
    """What can be chosen from; empty where there are too many to list."""
    class_name: str
    seed: int
    shuffled: str
    """Queries that lead to another order, to the samples' own one,"""
    in_order: str | None
    previous: str | None
    """to the page before this one, and to the one after it."""
    next: str | None
    problem: str | None = None


@dataclass(frozen=True)
class QuarantineRow:
    """A sample that runs skipped or replaced."""

    picture: str
    name: str
    reason: str
    times: str
    runs: list[str]
    further: str


@dataclass(frozen=True)
class QuarantineView:
    """All of them, a page at a time."""

    total: int
    rows: list[QuarantineRow]
    next: int | None


def picture_address(dataset: str, version: str, sample: int) -> str:
    """Where the thumbnail of a sample of this very version is, or a drawing in its place."""
    path = f"/api/v1/datasets/{quote(dataset)}/samples/{sample}/thumbnail"
    return f"{path}?version={version[:12]}&placeholder=true"


def grid_view(
    shown: Shown, asked: Asked, found: SamplePage, problem: str | None = None
) -> GridView:
    """The grid of samples."""
    end = asked.offset + len(found.samples)
    return GridView(
        dataset=shown.name,
        cells=[_cell(shown, sample) for sample in found.samples],
        words=_range(asked.offset, end, found.total),
        classes=shown.classes if len(shown.classes) <= _MOST_LISTED else [],
        class_name=asked.class_name or "",
        seed=asked.seed,
        shuffled=replace(asked, seed=asked.seed + 1).query(0),
        in_order=replace(asked, seed=0).query(0) if asked.seed else None,
        previous=asked.query(max(0, asked.offset - GRID)) if asked.offset else None,
        next=asked.query(end) if end < found.total else None,
        problem=problem,
    )


def _range(start: int, end: int, total: int) -> str:
    if start >= end:
        return f"none of {total:,}"
    return f"{start + 1:,} to {end:,} of {total:,}"


def _cell(shown: Shown, sample: SampleInfo) -> Cell:
    return Cell(
        picture=picture_address(shown.name, shown.version, sample.sample),
        name=sample.name,
        label=sample.class_name,
        words=f"{sample.width:,} × {sample.height:,} px · {size(sample.bytes)}",
    )


def quarantine_view(shown: Shown, offset: int, found: QuarantinePage) -> QuarantineView:
    """Samples that runs could not use."""
    end = offset + len(found.samples)
    return QuarantineView(
        total=found.total,
        rows=[_quarantined(shown, entry) for entry in found.samples],
        next=end if end < found.total else None,
    )


def _quarantined(shown: Shown, entry: QuarantinedInfo) -> QuarantineRow:
    further = entry.run_count - len(entry.runs)
    return QuarantineRow(
        picture=picture_address(shown.name, shown.version, entry.sample),
        name=entry.name,
        reason=entry.reason,
        times="once" if entry.times == 1 else f"{entry.times:,} times",
        runs=entry.runs,
        further=f"and {further:,} more" if further > 0 else "",
    )
