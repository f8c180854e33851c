"""Deletes runs that are over: their rows, and what lies of them in the stores; the audit stays."""

import uuid
from functools import partial

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.dataset import delete_index
from ddlp.core.errors import Conflict, NotFound
from ddlp.core.lifecycle import ACTIVE
from ddlp.core.types import RunState
from ddlp.server import files, versions
from ddlp.server.board import Board
from ddlp.server.ledger import audit
from ddlp.server.models import Run
from ddlp.server.rewinding import followers_of


def delete_run(board: Board, session: Session, run_id: uuid.UUID, now: float) -> str:
    """Delete a run with its epochs, certificates and figures; returns its name.

    Called in the dispatcher's thread: nobody can take the run up again meanwhile.
    """
    row = session.get(Run, run_id)
    if row is None:
        raise NotFound("the run was deleted meanwhile; see: ddlp run list")
    _check_over(board, row)
    _check_unneeded(session, row)
    detail = {"id": str(row.id), "state": row.state, "dataset": row.dataset}
    audit(session, "run.delete", row.name, now, **detail)
    session.delete(row)
    session.flush()
    board.deleted.add(row.id)
    indexes = [left.path for left in versions.drop_unused(session, row.dataset)]
    board.written.append(partial(files.remove_run, board, row.id))
    board.written += [partial(delete_index, path) for path in indexes]
    return row.name


def _check_over(board: Board, row: Run) -> None:
    if RunState(row.state) in ACTIVE or row.id in board.runs:
        raise Conflict(
            f"run {row.name} is {row.state} and cannot be deleted; end it first with: "
            f"ddlp run cancel {row.name}"
        )


def _check_unneeded(session: Session, row: Run) -> None:
    """Refuse to take from another run what it still needs."""
    active = [state.value for state in ACTIVE]
    followers = select(Run.name).where(Run.replay_of == row.id, Run.state.in_(active))
    if names := sorted(session.scalars(followers)):
        raise Conflict(
            f"run {row.name} is being replayed by {', '.join(names)}; wait for the end of that, or "
            f"cancel it: ddlp run cancel {names[0]}"
        )
    if names := sorted({name for name, _ in followers_of(session, row.id)}):
        raise Conflict(
            f"run {', '.join(names)} went on from a checkpoint of run {row.name}, and its proof "
            f"needs these certificates; delete that first: ddlp run delete {' '.join(names)}"
        )
