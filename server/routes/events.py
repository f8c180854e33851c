"""A run's live events, as server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from ddlp.core.errors import NotFound, Unavailable
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.types import RunState
from ddlp.server import snapshot
from ddlp.server.context import Context, ContextDep, done, find_run
from ddlp.server.models import Run
from ddlp.server.snapshot import Snapshot

PERIOD_S = 0.5
MAX_STREAMS = 200

router = APIRouter(prefix="/runs", tags=["events"])


@router.get("/{ref}/events")
async def events(ref: str, request: Request, context: ContextDep) -> StreamingResponse:
    """`snapshot` events while the run lives, one `end` event when it is over."""
    run = await find_run(context, ref)

    async def lines() -> AsyncIterator[str]:
        async for seen in watch(context, run):
            yield event("snapshot", json.dumps(asdict(seen)))
        ended = await find_run(context, ref)
        yield event("end", json.dumps({"state": ended.state, "reason": ended.reason}))

    return stream(context, lines())


async def watch(context: Context, run: Run) -> AsyncIterator[Snapshot]:
    """The run again and again until it is over."""
    while RunState(run.state) not in TERMINAL:
        try:
            yield await done(
                context.dispatcher.call(lambda board, _, now: snapshot.take(board, run.id, now))
            )
        except NotFound:
            return
        await asyncio.sleep(PERIOD_S)


def event(name: str, data: str) -> str:
    """One server-sent event."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines())
    return f"event: {name}\n{lines}\n"


def stream(context: Context, lines: AsyncIterator[str]) -> StreamingResponse:
    """A bounded number of open streams; each is counted out when its reader goes."""
    if context.streams >= MAX_STREAMS:
        raise Unavailable(f"{MAX_STREAMS} live pages are open already; close one")

    async def counted() -> AsyncIterator[str]:
        context.streams += 1
        try:
            async for line in lines:
                yield line
        finally:
            context.streams -= 1

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(counted(), media_type="text/event-stream", headers=headers)
