"""Finds runs whose work stopped for a reason that nobody will report, and continues or fails them.

- A run that the database holds as active and the board does not know is taken up: the server died
  between writing it and beginning with it.
- A run that is over in the database leaves the board.
- A run whose dataset is gone has failed. One that waits for trainers may do so for ever, unless
  `DDLP_ABANDON_AFTER_S` says how long.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.errors import DdlpError
from ddlp.core.lifecycle import ACTIVE, TERMINAL
from ddlp.core.types import RunState
from ddlp.server import ledger
from ddlp.server.board import ActiveRun, Board
from ddlp.server.models import Run

PERIOD_S = 5.0


def reconcile(board: Board, session: Session, now: float) -> list[tuple[ActiveRun, str]]:
    """Make the board and the database agree; returns the runs that have failed, with the reason."""
    states = [state.value for state in ACTIVE]
    active = {row.id: row for row in session.scalars(select(Run).where(Run.state.in_(states)))}
    for run_id, row in active.items():
        if run_id not in board.runs:
            _take_up(board, session, row, now)
    for run_id, run in list(board.runs.items()):
        if run_id not in active and run.state not in TERMINAL:
            del board.runs[run_id]
    return [
        (run, why)
        for run_id, run in board.runs.items()
        if run_id in active and (why := _why_stopped(board, run, active[run_id], now)) is not None
    ]


def _take_up(board: Board, session: Session, row: Run, now: float) -> None:
    try:
        board.add_run(session, row, now)
    except DdlpError as error:
        reason = f"it cannot be taken up: {error}"
        ledger.change_state(session, row, RunState.FAILED, now, reason)


def _why_stopped(board: Board, run: ActiveRun, row: Run, now: float) -> str | None:
    waits = run.state is RunState.CREATED or run.left
    run.taken_up_at = run.taken_up_at or now
    if run.state in TERMINAL or (run.state is RunState.PAUSED and not run.left):
        run.taken_up_at = now  # that time does not count when it is resumed
        return None
    if row.dataset_id is None:
        return f"dataset {row.dataset} was removed"
    silent_s = now - max(run.heard_at or 0.0, run.taken_up_at)
    limit_s = board.settings.abandon_after_s
    if not waits or limit_s is None or silent_s <= limit_s:
        return None
    return (
        f"no trainer was heard of for {silent_s / 3600:.1f} h; make it again with: ddlp run clone "
        f"{run.name}, or raise DDLP_ABANDON_AFTER_S"
    )
