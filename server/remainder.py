"""Counts the samples that a run did not deliver although all its epochs are over."""

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.plan import Segment
from ddlp.core.schedule import EpochSchedule
from ddlp.core.types import RunState
from ddlp.server import ledger
from ddlp.server.board import run_plan
from ddlp.server.models import Epoch, Run

_Progress = tuple[Segment, int]
"""The last segment of an epoch, and how many batches of the epoch were consumed."""


def left_over(session: Session, run: Run) -> int | None:
    """Samples that an incomplete run left; None of a run in another state."""
    return samples_left(session, run) if run.state == RunState.INCOMPLETE.value else None


def samples_left(
    session: Session, run: Run, under_way: Mapping[int, EpochSchedule] | None = None
) -> int | None:
    """Samples of all epochs that were not delivered; None where training decides on epochs.

    Epochs that are under way are counted as they stand, not as they were last written down.
    """
    plan = run_plan(run)
    if plan.epochs is None:
        return None
    query = select(Epoch).where(Epoch.run_id == run.id)
    found: dict[int, _Progress] = {
        row.number: (ledger.segments_of(row)[-1], row.consumed) for row in session.scalars(query)
    }
    found |= {number: (e.segment, e.consumed) for number, e in (under_way or {}).items()}
    _, first = ledger.complete_epochs(session, run.id)
    origins = [e.origin.first_epoch for e in (under_way or {}).values() if e.origin is not None]
    first = max([first, *origins])
    opened = [progress for number, progress in found.items() if first <= number < plan.epochs]
    skipped = plan.epochs - first - len(opened)
    return skipped * plan.whole.left(0) + sum(_left(*progress) for progress in opened)


def _left(segment: Segment, consumed: int) -> int:
    return segment.left(max(0, consumed - segment.position))
