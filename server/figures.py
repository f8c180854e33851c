"""What the roll-ups of runs come to: totals by source, rates, joules, and series over time."""

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ddlp.core.messages import EnergyInfo, ReadInfo
from ddlp.core.types import Prong, Provenance, ReadPath
from ddlp.server.models import Rollup, RunRead, RunTotal

PRONGS = [prong.value for prong in Prong]


@dataclass(frozen=True)
class Total:
    """All seconds of one source of a run together."""

    images: int = 0
    span_s: int = 0
    """From the first second in which something happened to the last."""
    joules: float | None = None
    waited_s: float = 0.0
    trained_s: float = 0.0
    emulated: bool = False
    """Whether an emulated device made some of it."""

    @property
    def images_per_s(self) -> float | None:
        """The mean rate over the span; None when nothing was made."""
        return self.images / self.span_s if self.images else None

    @property
    def wait_share(self) -> float | None:
        """The share of a trainer's time that it spent waiting; None when it spent none."""
        time_s = self.waited_s + self.trained_s
        return self.waited_s / time_s if time_s > 0 else None


Totals = dict[str, Total]


def totals(session: Session, run_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Totals]:
    """The totals of runs by source: `cpu`, `csd`, `trainer`; what did not happen is zero."""
    found: dict[uuid.UUID, Totals] = defaultdict(lambda: defaultdict(Total))
    for row in session.scalars(select(RunTotal).where(RunTotal.run_id.in_(run_ids))):
        found[row.run_id][row.source] = Total(
            images=row.images,
            span_s=row.last_at - row.first_at + 1,
            joules=None if row.joules_unknown else row.joules,
            waited_s=row.waited_s,
            trained_s=row.trained_s,
            emulated=row.emulated,
        )
    return found


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


def energy(prong: str, total: Total) -> EnergyInfo:
    """Joules of a prong, with how they were obtained; unknown is never 0."""
    known = total.joules is not None and total.images > 0
    busy = "CPU seconds" if prong == Prong.CPU.value else "busy seconds"
    return EnergyInfo(
        source=prong,
        joules=total.joules if known else None,
        joules_per_image=total.joules / total.images
        if known and total.joules is not None
        else None,
        provenance=(Provenance.MODELLED if known else Provenance.UNAVAILABLE).value,
        method=_method(busy, known, total.images),
    )


def _method(busy: str, known: bool, images: int) -> str:
    if known:
        return f"{busy} × declared watts"
    if images:
        return "a device of this prong does not say what it draws"
    return "nothing was made by this prong"


def series(session: Session, run_id: uuid.UUID, points: int) -> dict[str, dict[str, list[float]]]:
    """Images a second by source over a run, in at most so many points each."""
    mine = Rollup.run_id == run_id
    first, last = session.execute(
        select(func.min(Rollup.at), func.max(Rollup.at)).where(mine)
    ).one()
    if first is None:
        return {}
    step_s = -(-(last - first + 1) // points)
    slot = ((Rollup.at - first) // step_s).label("slot")
    query = (
        select(Rollup.source, slot, func.sum(Rollup.images))
        .where(mine)
        .group_by(Rollup.source, slot)
        .order_by(slot)
    )
    found: dict[str, dict[str, list[float]]] = {}
    for source, place, images in session.execute(query):
        line = found.setdefault(source, {"at": [], "images_per_s": []})
        line["at"].append(first + int(place) * step_s)
        line["images_per_s"].append(int(images) / step_s)
    return found
