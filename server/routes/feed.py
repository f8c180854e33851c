"""What trainers ask: where to go on, the next batches, and a damaged one to be made again."""

import uuid
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Response
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, NotFound
from ddlp.core.messages import (
    Attach,
    Attached,
    Begin,
    Damaged,
    Fed,
    FeedRequest,
    Leave,
    Mark,
    MarkRequest,
    Taken,
    Where,
)
from ddlp.core.types import BadPolicy, RunState
from ddlp.server import serving, session_start, sessions
from ddlp.server.board import Board, run_plan
from ddlp.server.calls import Action
from ddlp.server.context import Context, ContextDep, as_json, done, find_run
from ddlp.server.models import Run
from ddlp.server.parameters import RunRef

router = APIRouter(prefix="/runs", tags=["feed"])


@router.post("/{ref}/attach")
async def attach(ref: RunRef, body: Attach, context: ContextDep) -> Attached | Taken:
    """Join a run as one rank of a training job.

    A rank is held by one living process: should another one hold it, the answer names that.
    """
    row = await find_run(context, ref)
    if RunState(row.state) in (RunState.COMPLETED, RunState.INCOMPLETE):
        hold_s = context.settings.trainer_timeout_s
        return _attached(row, body, _at_end(row, body), under_way=True, hold_s=hold_s)

    def hold(board: Board, sql: Session, now: float) -> Attached | Taken:
        run = board.run(row.id)
        found = sessions.attach(board, sql, run, body, now)
        if isinstance(found, Taken):
            return found
        fresh = sql.get_one(Run, row.id)
        timeout_s = board.settings.trainer_timeout_s
        return _attached(fresh, body, *found, hold_s=timeout_s)

    found: Attached | Taken = await _while_active(context, ref, hold)
    return found


def _at_end(row: Run, body: Attach) -> Where:
    """Where a run stands whose epochs are all over."""
    if row.fixed_ranks:
        sessions.check_world(row, body)
    plan = run_plan(row)
    epochs = plan.epochs or 0
    return Where(epoch=epochs, step=0, rounds=plan.rank_batches, position=0, epochs=plan.epochs)


def _attached(row: Run, body: Attach, where: Where, under_way: bool, hold_s: float) -> Attached:
    return Attached(
        run=row.id,
        session=body.session,
        name=row.name,
        plan=run_plan(row),
        dataset=row.dataset,
        dataset_version=row.dataset_version,
        transforms=row.transforms,
        pipeline_hash=row.pipeline_hash,
        on_bad=BadPolicy(row.on_bad),
        state=RunState(row.state),
        where=where,
        under_way=under_way,
        hold_s=hold_s,
    )


@router.post("/{run_id}/begin")
async def begin(run_id: uuid.UUID, body: Begin, context: ContextDep) -> Where:
    """Say how a session goes on: at the beginning, from a state, with an epoch, with what is left.

    The same ranks get the same batches again, for the same steps. Another number of ranks shares
    just what was left, and so does another run than the one that the state was taken in.
    """
    row = await find_run(context, str(run_id))
    if RunState(row.state) in (RunState.FAILED, RunState.CANCELLED):
        raise _over(row)
    where: Where = await _while_active(
        context, str(run_id), lambda board, s, now: session_start.begin(board, s, run_id, body, now)
    )
    return where


@router.post("/{run_id}/alive")
async def alive(run_id: uuid.UUID, body: Leave, context: ContextDep) -> None:
    """Say that a session lives, and which state it took last."""

    def hear(board: Board, session: Session, now: float) -> None:
        run = board.run(run_id)
        sessions.heard_of(run, session, body.rank, body.session, now)
        sessions.note_checkpoint(run, body)

    try:
        await done(context.dispatcher.call(hear))
    except NotFound:  # the run is over: there is nothing to hold any more
        row = await find_run(context, str(run_id))
        if RunState(row.state) is RunState.CANCELLED:
            raise _over(row) from None


@router.post("/{run_id}/leave")
async def leave(run_id: uuid.UUID, body: Leave, context: ContextDep) -> None:
    """End a session; when the last one ends, the run is paused until a trainer comes back."""

    def end(board: Board, session: Session, now: float) -> None:
        run = board.run(run_id)
        sessions.note_checkpoint(run, body)
        sessions.leave(board, session, run, body.rank, body.session, now)

    with suppress(NotFound):
        await done(context.dispatcher.call(end))


@router.post("/{run_id}/mark")
async def mark(run_id: uuid.UUID, body: MarkRequest, context: ContextDep) -> Mark:
    """Say how many batches came from the head before a step, for a state that any run can use."""

    def find(board: Board, *_: object) -> Mark:
        return Mark(heads=board.run(run_id).schedule.round_heads(body.epoch, body.step))

    try:
        found: Mark = await done(context.dispatcher.call(find))
    except NotFound:
        return Mark(heads=None)
    return found


@router.post("/{run_id}/feed", response_model=Fed)
async def feed(run_id: uuid.UUID, body: FeedRequest, context: ContextDep) -> Response:
    """Say what was consumed, and get the next batches; waits up to `wait_s` for the first."""
    try:
        fed: Fed = await done(context.dispatcher.feed(run_id, body))
    except NotFound:
        row = await find_run(context, str(run_id))
        fed = Fed(batches=[], done=False, state=RunState(row.state), reason=row.reason)
    return as_json(fed)


@router.post("/{run_id}/damaged")
async def damaged(run_id: uuid.UUID, body: Damaged, context: ContextDep) -> None:
    """A batch was handed out but cannot be read: it is made again for the same step."""
    await _while_active(
        context,
        str(run_id),
        lambda board, _, now: serving.damaged(board.run(run_id), body, now),
    )


async def _while_active(context: Context, ref: str, action: Action) -> Any:
    """Have the dispatcher do something to a run; one that ended this moment says why."""
    try:
        return await done(context.dispatcher.call(action))
    except NotFound as error:
        raise _over(await find_run(context, ref)) from error


def _over(run: Run) -> Conflict:
    why = f": {run.reason}" if run.reason else ""
    if RunState(run.state) in (RunState.COMPLETED, RunState.INCOMPLETE):
        return Conflict(
            f"run {run.name} is {run.state}{why}; give it more epochs with: ddlp run extend "
            f"{run.name} --epochs N, or make another like it with: ddlp run clone {run.name}"
        )
    return Conflict(
        f"run {run.name} is {run.state}{why}; start it again as a new run with: "
        f"ddlp run retry {run.name} (a state of this one fits it)"
    )
