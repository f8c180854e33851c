"""What the figures of runs come to: totals by source, rates, joules, and series over time."""

import sys
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from ddlp.core.messages import EnergyInfo, ReadInfo
from ddlp.core.throughput import images_per_s
from ddlp.core.types import Prong, Provenance, ReadPath, Spending
from ddlp.server.models import Rollup, RunRead, Tally
from ddlp.server.telemetry import PERIODS_S, SUMS, TRAINER, Bucket

PRONGS = [prong.value for prong in Prong]
APART = "idle"
"""Joules of hosts and drives that they would have used anyway."""
_BESIDE = ("dram", "gpu", APART)
SOURCES = (*PRONGS, *_BESIDE)
"""Whatever uses energy."""


@dataclass
class Total:
    """All that one source of a run comes to."""

    bucket: Bucket = field(default_factory=Bucket)
    first_at: int = 0
    last_at: int = 0

    def add(self, bucket: Bucket, first_at: int, last_at: int) -> None:
        """Count a part in."""
        known = self.last_at > 0
        self.first_at = min(self.first_at, first_at) if known else first_at
        self.last_at = max(self.last_at, last_at)
        self.bucket.add(bucket)

    @property
    def images(self) -> int:
        """Images made or taken."""
        return self.bucket.images

    @property
    def span_s(self) -> int:
        """From the first second in which something happened to the last."""
        return self.last_at - self.first_at + 1 if self.last_at else 0

    @property
    def emulated(self) -> bool:
        """Whether an emulated device made some of it."""
        return self.bucket.emulated

    @property
    def throughput(self) -> float | None:
        """What trainers received a second, of their total; None where it was not measured."""
        return images_per_s(self.bucket.measured_images, self.bucket.measured_s)

    @property
    def wait_share(self) -> float | None:
        """The share of a trainer's time that it spent waiting; None when it spent none."""
        return wait_share(self.bucket)


Totals = dict[str, Total]


def wait_share(bucket: Bucket) -> float | None:
    """The share of a trainer's time that it spent waiting; None when it spent none."""
    spent_s = bucket.spent_s
    time_s = sum(spent_s.values())
    return 1 - spent_s[Spending.TRAINING] / time_s if time_s > 0 else None


def bucket_of(row: Tally) -> Bucket:
    """A row as it was counted."""
    names = (*SUMS, "peak_bytes", "emulated", "joules_unknown")
    return Bucket(**{name: getattr(row, name) for name in names})


def totals(session: Session, run_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Totals]:
    """The totals of runs by source; what did not happen is zero."""
    found: dict[uuid.UUID, Totals] = defaultdict(lambda: defaultdict(Total))
    for row in _summed(session, Tally.run_id.in_(run_ids), Tally.run_id):
        found[row.key][row.source].add(row.bucket, row.first_at, row.last_at)
    return found


def measured_images(
    session: Session, run_ids: Sequence[uuid.UUID]
) -> dict[uuid.UUID, dict[str, int]]:
    """What trainers received in measured time, by run and by the prong that made it."""
    found: dict[uuid.UUID, dict[str, int]] = defaultdict(dict)
    query = (
        select(Tally.run_id, Tally.device, func.sum(Tally.measured_images))
        .where(Tally.run_id.in_(run_ids), Tally.source == TRAINER, Tally.device.in_(PRONGS))
        .group_by(Tally.run_id, Tally.device)
    )
    for run_id, prong, images in session.execute(query):
        found[run_id][prong] = int(images)
    return found


def by_device(session: Session, run_id: uuid.UUID) -> dict[tuple[str, str], Total]:
    """The totals of one run by source and device."""
    found: dict[tuple[str, str], Total] = defaultdict(Total)
    for row in _summed(session, Tally.run_id == run_id, Tally.device):
        found[row.source, row.key].add(row.bucket, row.first_at, row.last_at)
    return found


@dataclass(frozen=True)
class _Sum:
    """Tallies of one source, added up for one run or one device."""

    key: Any
    source: str
    bucket: Bucket
    first_at: int
    last_at: int


def _summed(session: Session, which: ColumnElement[bool], key: Any) -> list[_Sum]:
    """Tallies added up over epochs by the database, and over runs or devices if not told apart."""
    marks = (Tally.emulated, Tally.joules_unknown)
    sums = [func.sum(getattr(Tally, name)).label(name) for name in SUMS]
    query = (
        select(
            key.label("key"),
            Tally.source,
            *marks,
            func.min(Tally.first_at).label("first"),
            func.max(Tally.last_at).label("last"),
            func.max(Tally.peak_bytes).label("peak_bytes"),
            *sums,
        )
        .where(which)
        .group_by(key, Tally.source, *marks)
    )
    found = []
    for row in session.execute(query).mappings():
        kinds = Bucket.__annotations__
        values: dict[str, Any] = {name: _number(row[name], kinds[name]) for name in SUMS}
        bucket = Bucket(
            **values,
            peak_bytes=int(row["peak_bytes"]),
            emulated=bool(row["emulated"]),
            joules_unknown=bool(row["joules_unknown"]),
        )
        found.append(_Sum(row["key"], row["source"], bucket, int(row["first"]), int(row["last"])))
    return found


def _number(value: object, kind: object) -> float:
    """Databases add integers up to decimals."""
    return int(str(value)) if kind is int else float(str(value))


def reads(session: Session, run_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[ReadInfo]]:
    """What trainers of runs read, by path and reason, the most first."""
    found: dict[uuid.UUID, list[ReadInfo]] = defaultdict(list)
    query = select(RunRead).where(RunRead.run_id.in_(run_ids)).order_by(RunRead.bytes.desc())
    for row in session.scalars(query):
        found[row.run_id].append(
            ReadInfo(
                path=ReadPath(row.path), reason=row.reason, batches=row.batches, bytes=row.bytes
            )
        )
    return found


def energy(found: Totals) -> list[EnergyInfo]:
    """Joules by source, each with how they were obtained; unknown is never 0."""
    made = sum(found[prong].images for prong in PRONGS)
    entries: list[EnergyInfo] = []
    for source in SOURCES:
        images = found[source].images if source in PRONGS else made
        known = _known(source, found[source], images)
        if known or source in PRONGS:
            entries += known or [_unknown(source, found[source])]
    return entries


def _known(source: str, total: Total, images: int) -> list[EnergyInfo]:
    return [
        EnergyInfo(
            source=source,
            joules=joules,
            joules_per_image=joules / images if images else None,
            provenance=provenance.value,
            method=method(source, provenance),
            period_s=float(total.span_s),
            apart=source == APART,
        )
        for provenance, joules in known_joules(total.bucket).items()
    ]


def known_joules(bucket: Bucket) -> dict[Provenance, float]:
    """The joules of a bucket by how they were obtained; none where a part of them is unknown."""
    amounts = {
        Provenance.MEASURED: bucket.joules_measured,
        Provenance.MODELLED: bucket.joules_modelled,
    }
    return {} if bucket.joules_unknown else {how: j for how, j in amounts.items() if j > 0}


def _unknown(source: str, total: Total) -> EnergyInfo:
    return EnergyInfo(
        source=source,
        joules=None,
        joules_per_image=None,
        provenance=Provenance.UNAVAILABLE.value,
        method=why_unknown(total.bucket),
    )


def why_unknown(bucket: Bucket) -> str:
    """Why nothing is known of the joules of a prong or a device."""
    if not bucket.images:
        return "nothing was made by this prong"
    if bucket.joules_unknown:
        return "a device of this prong does not say what it draws"
    return "no watts are declared, and no meter was read yet"


_METHODS = {
    ("cpu", Provenance.MODELLED): "CPU seconds × declared watts",
    ("csd", Provenance.MODELLED): "busy seconds × declared watts",
    ("dram", Provenance.MODELLED): "memory of the workers × time × declared watts a GB",
    (APART, Provenance.MODELLED): "declared idle watts × time",
    ("csd", Provenance.MEASURED): "the drive's meter, divided by busy seconds",
    ("gpu", Provenance.MEASURED): "NVML, divided by seconds of training",
    (APART, Provenance.MEASURED): "the lowest power that was seen × time",
}


def method(source: str, provenance: Provenance) -> str:
    """How joules of a source were obtained, in words."""
    usual = "the host's meters, divided by CPU seconds"
    return _METHODS.get((source, provenance), usual)


Line = dict[str, list[float | None]]


def series(session: Session, run_id: uuid.UUID, points: int) -> dict[str, Line]:
    """Images a second and watts by source over a run, in at most so many points each.

    Watts are None for a source of which a device does not say what it draws.
    """
    bounds = _bounds(session, run_id)
    if not bounds:
        return {}
    period_s = _period_s(bounds, points)
    first, last = bounds[period_s]
    step_s = period_s * -(-(last - first + period_s) // (points * period_s))
    slot = ((Rollup.at - first) // step_s).label("slot")
    joules = func.sum(Rollup.joules_modelled + Rollup.joules_measured)
    query = (
        select(Rollup.source, slot, func.sum(Rollup.images), joules)
        .where(Rollup.run_id == run_id, Rollup.period_s == period_s)
        .group_by(Rollup.source, slot)
        .order_by(slot)
    )
    silent = select(Tally.source).where(Tally.run_id == run_id, Tally.joules_unknown).distinct()
    unknown = set(session.scalars(silent))
    found: dict[str, Line] = {}
    for source, place, images, energy_j in session.execute(query):
        line = found.setdefault(source, {"at": [], "images_per_s": [], "watts": []})
        line["at"].append(first + int(place) * step_s)
        line["images_per_s"].append(int(images) / step_s)
        line["watts"].append(None if source in unknown else float(energy_j) / step_s)
    return found


def _bounds(session: Session, run_id: uuid.UUID) -> dict[int, tuple[int, int]]:
    """The first and the last second of a run that there are figures of, by their period."""
    query = select(Rollup.period_s, func.min(Rollup.at), func.max(Rollup.at))
    rows = session.execute(query.where(Rollup.run_id == run_id).group_by(Rollup.period_s))
    return {int(period_s): (int(first), int(last)) for period_s, first, last in rows}


def finest_period(session: Session, run_id: uuid.UUID) -> int:
    """The shortest period that there are figures of from the run's beginning on."""
    bounds = _bounds(session, run_id)
    return _period_s(bounds, sys.maxsize) if bounds else min(PERIODS_S)


def _period_s(bounds: dict[int, tuple[int, int]], points: int) -> int:
    """The longest period that is short enough for the points, of those that reach back far enough.

    Short ones are kept for less long: a run that began before that is shown by longer ones.
    """
    first = min(start for start, _ in bounds.values())
    last = max(end for _, end in bounds.values())
    whole = [p for p, (start, _) in bounds.items() if start < first + max(bounds) + p]
    short = [p for p in whole if p <= (last - first) / points]
    return max(short) if short else min(whole)
