"""A run's live events, as server-sent events."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ddlp.core.errors import NotFound, Unavailable
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.types import RunState
from ddlp.server import identity, problems, snapshot
from ddlp.server.context import Context, ContextDep, done, find_run
from ddlp.server.models import Run
from ddlp.server.parameters import RunRef
from ddlp.server.snapshot import Snapshot

PERIOD_S = 0.5
MAX_STREAMS = 512

router = APIRouter(prefix="/runs", tags=["events"])


@router.get("/{ref}/events")
async def events(ref: RunRef, request: Request, context: ContextDep) -> StreamingResponse:
    """`snapshot` events while the run lives, one `end` event when it is over."""
    run = await find_run(context, ref)

    async def lines() -> AsyncGenerator[str | bytes, None]:
        async for seen in watch(context, run):
            yield event("snapshot", json.dumps(asdict(seen)))
        ended = await find_run(context, ref)
        yield event("end", json.dumps({"state": ended.state, "reason": ended.reason}))

    return Stream(context, lines())


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


class Stream(StreamingResponse):
    """Events as they come; one of a bounded number, counted out when its reader goes."""

    def __init__(self, context: Context, lines: AsyncGenerator[str | bytes, None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(self._allowed(), media_type="text/event-stream", headers=headers)
        self._context = context
        self._lines = lines
        self._reader = identity.current()

    async def _allowed(self) -> AsyncGenerator[str | bytes, None]:
        """The events, until the reader's key is revoked."""
        async for line in self._lines:
            if self._reader is not None and not self._context.keyring.knows(self._reader):
                return
            yield line

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them, or refuse to; nothing comes between the look at the number and its change."""
        if self._context.streams >= MAX_STREAMS:
            words = f"{MAX_STREAMS} live pages are open already; close one"
            await problems.answer(Unavailable(words))(scope, receive, send)
            return
        self._context.streams += 1
        try:
            async with aclosing(self._lines):
                await super().__call__(scope, receive, send)
        finally:
            self._context.streams -= 1
