"""What trainers ask: where to go on, the next batches, and a damaged one to be made again."""

import uuid
from typing import Any

from fastapi import APIRouter

from ddlp.core.errors import Conflict, NotFound
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.messages import Attach, Attached, Damaged, Fed, FeedRequest, Rewind
from ddlp.core.types import BadPolicy, RunState
from ddlp.server.board import run_plan
from ddlp.server.context import Context, ContextDep, done, find_run
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
    epoch, step = await _while_active(
        context, ref, lambda board, _, now: board.attach(row.id, session, body)
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
        epoch=epoch,
        step=step,
    )


@router.post("/{run_id}/feed")
async def feed(run_id: uuid.UUID, body: FeedRequest, context: ContextDep) -> Fed:
    """Say what was consumed, and get the next batches; waits up to `wait_s` for the first."""
    try:
        fed: Fed = await done(context.dispatcher.feed(run_id, body))
    except NotFound:
        row = await find_run(context, str(run_id))
        return Fed(batches=[], done=False, state=RunState(row.state), reason=row.reason)
    return fed


@router.post("/{run_id}/rewind")
async def rewind(run_id: uuid.UUID, body: Rewind, context: ContextDep) -> None:
    """Go back to where a checkpoint was taken; the same batches come again, for the same steps."""
    await _while_active(
        context, str(run_id), lambda board, s, now: board.rewind(s, run_id, body, now)
    )


@router.post("/{run_id}/damaged")
async def damaged(run_id: uuid.UUID, body: Damaged, context: ContextDep) -> None:
    """A batch was handed out but cannot be read: it is made again for the same step."""
    await _while_active(
        context,
        str(run_id),
        lambda board, _, now: board.run(run_id).schedule.damaged(
            body.epoch, body.index, body.token, body.reason, body.gone
        ),
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
