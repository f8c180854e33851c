"""The bad samples of runs: written with the batch that was made without them, and listed."""

import uuid
from collections.abc import Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from ddlp.core.messages import BadSampleInfo
from ddlp.core.mishap import Mishap
from ddlp.server.models import BadSample, Run


def save(
    session: Session, run_id: uuid.UUID, mishaps: dict[tuple[int, int], tuple[Mishap, ...]]
) -> None:
    """Remember the bad samples of batches, in place of what was known of these batches before."""
    for (epoch, batch), bad in mishaps.items():
        session.execute(
            delete(BadSample).where(
                BadSample.run_id == run_id, BadSample.epoch == epoch, BadSample.batch == batch
            )
        )
        session.add_all(
            BadSample(run_id=run_id, epoch=epoch, batch=batch, **vars(mishap)) for mishap in bad
        )


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


def _info(row: BadSample) -> BadSampleInfo:
    mishap = Mishap(row.sample, row.name, row.reason, row.substitute)
    return BadSampleInfo(
        id=row.id, epoch=row.epoch, batch=row.batch, action=mishap.action, **vars(mishap)
    )
