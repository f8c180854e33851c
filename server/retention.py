"""What the database keeps, and for how long: without this it would grow with every run."""

from typing import Any, cast

from sqlalchemy import CursorResult, Select, and_, delete, or_, select, tuple_
from sqlalchemy.orm import Session

from ddlp.core.lifecycle import TERMINAL
from ddlp.core.settings import Settings
from ddlp.server.idempotency import forget_answers
from ddlp.server.models import AuditEvent, BatchRow, CertificateRow, Epoch, Run, RunTrace
from ddlp.server.rollups import forget_rollups

_DAY_S = 86_400
_RUNS_AT_ONCE = 5
_ROWS_AT_ONCE = 5_000
_EVENTS_AT_ONCE = 5_000
"""The dispatcher waits meanwhile: what is left is removed the next time."""


def forget(session: Session, settings: Settings, now: float) -> None:
    """Remove what is older than it is kept, a part at a time."""
    forget_rollups(session, settings, now)
    forget_answers(session, settings.keep_answers_h, now)
    forget_audit(session, now - settings.keep_audit_d * _DAY_S)
    forget_run_details(session, now - settings.keep_run_details_d * _DAY_S, now)


def forget_audit(session: Session, before: float) -> None:
    """Remove the oldest of who did what."""
    some = select(AuditEvent.id).where(AuditEvent.at < before).limit(_EVENTS_AT_ONCE)
    session.execute(delete(AuditEvent).where(AuditEvent.id.in_(some)))


def forget_run_details(session: Session, before: float, now: float) -> None:
    """Remove batches and timelines of runs that ended long ago; their certificates hold the rest.

    An epoch without a certificate is not done with: its run is left until the notary was there.
    """
    room = _ROWS_AT_ONCE
    for run in session.scalars(_done_with(before)).all():
        if run.details_removed_at is None or run.details_removed_at < (run.ended_at or 0.0):
            # From the first part on: half of the batches are no use to anybody.
            run.details_removed_at = now
        session.execute(delete(RunTrace).where(RunTrace.run_id == run.id))
        room -= _forget_batches(session, run, room)
        if room <= 0:
            return


def _forget_batches(session: Session, run: Run, most: int) -> int:
    """Remove so many of a run's batches; returns how many there were."""
    key = tuple_(BatchRow.run_id, BatchRow.epoch, BatchRow.index)
    some = select(BatchRow.run_id, BatchRow.epoch, BatchRow.index)
    some = some.where(BatchRow.run_id == run.id).limit(most)
    found = session.execute(
        delete(BatchRow).where(key.in_(some)).execution_options(synchronize_session=False)
    )
    return int(cast("CursorResult[Any]", found).rowcount)


def _done_with(before: float) -> Select[Run]:
    sealed = select(CertificateRow.epoch).where(
        CertificateRow.run_id == Epoch.run_id, CertificateRow.epoch == Epoch.number
    )
    unsealed = select(Epoch.number).where(Epoch.run_id == Run.id, ~sealed.exists())
    return (
        select(Run)
        .where(
            Run.state.in_([state.value for state in TERMINAL]),
            and_(Run.ended_at < before, ~unsealed.exists()),
            or_(
                Run.details_removed_at.is_(None),
                Run.details_removed_at < Run.ended_at,  # it was extended since
                select(BatchRow.run_id).where(BatchRow.run_id == Run.id).exists(),
            ),
        )
        .order_by(Run.ended_at)
        .limit(_RUNS_AT_ONCE)
    )
