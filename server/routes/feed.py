"""What trainers ask: where to go on, the next batches, and a damaged one to be made again."""

import uuid
from typing import Any

from fastapi import APIRouter, Response

from ddlp.core.errors import Conflict, NotFound
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.messages import Attach, Attached, Damaged, Fed, FeedRequest, Rewind, Where
from ddlp.core.types import BadPolicy, RunState
from ddlp.server import serving
from ddlp.server.board import run_plan
from ddlp.server.context import Context, ContextDep, as_json, done, find_run
from ddlp.server.dispatcher import Action
from ddlp.server.models import Run

router = APIRouter(prefix="/runs", tags=["feed"])


@router.post("/{ref}/attach")
async def attach(ref: str, body: Attach, context: ContextDep) -> Attached:
    """Join a run as one rank of a training job."""
    row = await find_run(context, ref)
    if RunState(row.state) in TERMINAL:
        raise _over(row)
    session = uuid.uuid4()
    where: Where = await _while_active(
        context, ref, lambda board, _, now: serving.attach(board.run(row.id), session, body)
    )
    return Attached(
        run=row.id,
        session=session,
        name=row.name,
        plan=run_plan(row),
        dataset_version=row.dataset_version,
        transforms=row.transforms,
        pipeline_hash=row.pipeline_hash,
        on_bad=BadPolicy(row.on_bad),
        where=where,
    )


@router.post("/{run_id}/feed", response_model=Fed)
async def feed(run_id: uuid.UUID, body: FeedRequest, context: ContextDep) -> Response:
    """Say what was consumed, and get the next batches; waits up to `wait_s` for the first."""
    try:
        fed: Fed = await done(context.dispatcher.feed(run_id, body))
    except NotFound:
        row = await find_run(context, str(run_id))
        fed = Fed(batches=[], done=False, state=RunState(row.state), reason=row.reason)
    return as_json(fed)


@router.post("/{run_id}/rewind")
async def rewind(run_id: uuid.UUID, body: Rewind, context: ContextDep) -> Where:
    """Go back to where a checkpoint was taken.

    The same ranks get the same batches again, for the same steps. Another number of ranks shares
    just what was left.
    """
    where: Where = await _while_active(
        context, str(run_id), lambda board, s, now: serving.rewind(board, s, run_id, body, now)
    )
    return where


@router.post("/{run_id}/damaged")
async def damaged(run_id: uuid.UUID, body: Damaged, context: ContextDep) -> None:
    """A batch was handed out but cannot be read: it is made again for the same step."""
    await _while_active(
        context,
        str(run_id),
        lambda board, _, now: serving.damaged(board.run(run_id), body),
    )


async def _while_active(context: Context, ref: str, action: Action) -> Any:
    """Have the dispatcher do something to a run; one that ended this moment says why."""
    try:
        return await done(context.dispatcher.call(action))
    except NotFound as error:
        raise _over(await find_run(context, ref)) from error


def _over(run: Run) -> Conflict:
    why = f": {run.reason}" if run.reason else ""
    return Conflict(f"run {run.name} is {run.state}{why}; make a new one to train again")
