"""The bad samples of runs: written with the batch that was made without them, and listed."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from ddlp.core.messages import BadSampleInfo
from ddlp.core.messages.statistics import QuarantinedInfo, QuarantinePage
from ddlp.core.mishap import Mishap
from ddlp.server.models import BadSample, Dataset, Run

_RUNS_NAMED = 3


@dataclass(frozen=True)
class Growth:
    """The bad samples of an epoch became many more: at the first, and at each doubling."""

    epoch: int
    count: int
    last: Mishap


def save(
    session: Session, run_id: uuid.UUID, mishaps: dict[tuple[int, int], tuple[Mishap, ...]]
) -> list[Growth]:
    """Remember the bad samples of batches, in place of what was known of these batches before."""
    before = {epoch: _count_of_epoch(session, run_id, epoch) for epoch, _ in mishaps}
    for (epoch, batch), bad in mishaps.items():
        session.execute(
            delete(BadSample).where(
                BadSample.run_id == run_id, BadSample.epoch == epoch, BadSample.batch == batch
            )
        )
        session.add_all(
            BadSample(run_id=run_id, epoch=epoch, batch=batch, **vars(mishap)) for mishap in bad
        )
    last = {epoch: bad[-1] for (epoch, _), bad in mishaps.items() if bad}
    after = {epoch: _count_of_epoch(session, run_id, epoch) for epoch in last}
    return [
        Growth(epoch, after[epoch], mishap)
        for epoch, mishap in last.items()
        if after[epoch].bit_length() > before[epoch].bit_length()
    ]


def _count_of_epoch(session: Session, run_id: uuid.UUID, epoch: int) -> int:
    mine = (BadSample.run_id == run_id, BadSample.epoch == epoch)
    return session.scalar(select(func.count()).select_from(BadSample).where(*mine)) or 0


def page(session: Session, run: Run, before: int | None, limit: int) -> list[BadSampleInfo]:
    """Bad samples of a run, the newest first."""
    query = select(BadSample).where(BadSample.run_id == run.id)
    if before is not None:
        query = query.where(BadSample.id < before)
    rows = session.scalars(query.order_by(BadSample.id.desc()).limit(limit))
    return [_info(row) for row in rows]


def counts(session: Session, run_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """How many bad samples runs met, over all their epochs."""
    query = (
        select(BadSample.run_id, func.count())
        .where(BadSample.run_id.in_(run_ids))
        .group_by(BadSample.run_id)
    )
    return {run_id: int(count) for run_id, count in session.execute(query)}


def of_dataset(session: Session, row: Dataset, offset: int, limit: int) -> QuarantinePage:
    """Bad samples of all runs over this version of a dataset, each once, those met last first."""
    mine = (Run.dataset_id == row.id, Run.dataset_version == row.version)
    met = (
        select(
            func.max(BadSample.id).label("last"),
            func.count().label("times"),
            func.count(BadSample.run_id.distinct()).label("runs"),
        )
        .join(Run, Run.id == BadSample.run_id)
        .where(*mine)
        .group_by(BadSample.sample)
    ).subquery()
    total = session.scalar(select(func.count()).select_from(met)) or 0
    page_of_it = (
        select(BadSample, met.c.times, met.c.runs)
        .join(met, met.c.last == BadSample.id)
        .order_by(BadSample.id.desc())
        .offset(offset)
        .limit(limit)
    )
    found = list(session.execute(page_of_it))
    named = _newest_runs(session, mine, [bad.sample for bad, _, _ in found])
    return QuarantinePage(
        total=total,
        samples=[
            QuarantinedInfo(
                sample=bad.sample,
                name=bad.name,
                reason=bad.reason,
                times=times,
                runs=named[bad.sample][:_RUNS_NAMED],
                run_count=runs,
            )
            for bad, times, runs in found
        ],
    )


def _newest_runs(
    session: Session, mine: Sequence[ColumnElement[bool]], samples: Sequence[int]
) -> dict[int, list[str]]:
    """Which runs met each of some samples, the newest first."""
    query = (
        select(BadSample.sample, Run.name)
        .join(Run, Run.id == BadSample.run_id)
        .where(*mine, BadSample.sample.in_(samples))
        .group_by(BadSample.sample, Run.id, Run.name, Run.created_at)
        .order_by(Run.created_at.desc())
    )
    found: dict[int, list[str]] = {sample: [] for sample in samples}
    for sample, name in session.execute(query):
        found[sample].append(name)
    return found


def _info(row: BadSample) -> BadSampleInfo:
    mishap = Mishap(row.sample, row.name, row.reason, row.substitute)
    return BadSampleInfo(
        id=row.id, epoch=row.epoch, batch=row.batch, action=mishap.action, **vars(mishap)
    )
