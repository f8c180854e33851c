"""The pages and the live streams behind them."""

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from fastapi.templating import Jinja2Templates
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from ddlp.core.errors import NotFound
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.types import Prong, RunState
from ddlp.server import datasets, devices, quarantine, runs, snapshot
from ddlp.server.context import Context, ContextDep, SessionDep, done, find_run
from ddlp.server.models import Run
from ddlp.server.routes.datasets import info as dataset_info
from ddlp.server.routes.events import event, stream, watch
from ddlp.server.routes.runs import find_timeline
from ddlp.server.snapshot import Snapshot
from ddlp.web.data_views import BadView, bad_view, dataset_view
from ddlp.web.timeline_views import TimelineView, timeline_view
from ddlp.web.views import RunView, device_row, run_row, run_view

_SHOWN = 50
_EPOCHS = 12
_BAD = 20
_WINDOWS_S = (10.0, 30.0, 60.0)
"""How much of the timeline is shown: the shortest that holds all there is, if one does."""

router = APIRouter(include_in_schema=False)
templates = Jinja2Templates(Path(__file__).parent / "templates")
templates.env.trim_blocks = templates.env.lstrip_blocks = True


@router.get("/")
def index(request: Request, session: SessionDep, context: ContextDep) -> HTMLResponse:
    """Runs and devices."""
    return templates.TemplateResponse(
        request,
        "runs.html",
        {
            "runs": [
                run_row(info) for info in runs.infos(session, runs.page(session, None, _SHOWN))
            ],
            "devices": [
                device_row(info)
                for info in devices.list_all(session, context.settings, context.dispatcher.now())
            ],
            "datasets": [
                dataset_view(dataset_info(context, row)) for row in datasets.list_all(session)
            ],
        },
    )


@router.get("/runs/{ref}")
async def run_page(ref: str, request: Request, context: ContextDep) -> HTMLResponse:
    """One run."""
    row = await find_run(context, ref)
    view = await _view(context, row)
    bad = await run_in_threadpool(_read_bad, context, ref)
    timeline = await _timeline(context, ref)
    values = {"run": view, "bad": bad, "timeline": timeline}
    return templates.TemplateResponse(request, "run.html", values)


@router.get("/runs/{ref}/timeline")
async def run_timeline(ref: str, request: Request, context: ContextDep) -> HTMLResponse:
    """The last minute of a run, as it stands on its page."""
    row = await find_run(context, ref)
    live = RunState(row.state) not in TERMINAL
    values = {"run": row.name, "live": live, "timeline": await _timeline(context, ref)}
    return templates.TemplateResponse(request, "timeline_place.html", values)


async def _timeline(context: Context, ref: str) -> TimelineView:
    found = await find_timeline(context, ref, max(_WINDOWS_S))
    first = min((span.start_at for span in found.spans), default=found.now)
    window_s = next((s for s in _WINDOWS_S if s >= found.now - first), max(_WINDOWS_S))
    return await run_in_threadpool(timeline_view, found, window_s)


@router.get("/runs/{ref}/bad")
def run_bad(ref: str, request: Request, context: ContextDep) -> HTMLResponse:
    """The bad samples of a run, as they stand on its page."""
    bad = _read_bad(context, ref)
    return templates.TemplateResponse(request, "run_bad.html", {"bad": bad})


@router.get("/runs/{ref}/live")
async def live(ref: str, context: ContextDep) -> StreamingResponse:
    """The changing part of a run's page, again and again until the run is over."""
    row = await find_run(context, ref)

    async def lines() -> AsyncIterator[str]:
        async for seen in watch(context, row):
            view = await run_in_threadpool(_read, context, ref, seen)
            yield _message(view)
            yield event("rates", json.dumps(_rates(view, seen)))
        last = await run_in_threadpool(_read, context, ref, None)
        yield event("over", json.dumps({"percent": last.percent, "bad": last.bad_samples}))
        yield _message(last)

    return stream(context, lines())


async def _view(context: Context, row: Run) -> RunView:
    try:
        seen = await done(
            context.dispatcher.call(lambda board, _, now: snapshot.take(board, row.id, now))
        )
    except NotFound:
        seen = None
    return await run_in_threadpool(_read, context, row.name, seen)


def _read(context: Context, ref: str, seen: Snapshot | None) -> RunView:
    with context.database.session() as session:
        row = runs.find(session, ref)
        info = runs.info(session, row)
        return run_view(info, runs.epochs(session, row, _EPOCHS), seen, runs.consumed(session, row))


def _read_bad(context: Context, ref: str) -> BadView:
    with context.database.session() as session:
        row = runs.find(session, ref)
        return bad_view(runs.info(session, row), quarantine.page(session, row, None, _BAD))


def _message(view: RunView) -> str:
    html = templates.get_template("run_live.html").render(run=view)
    return "".join(f"data: {line}\n" for line in html.splitlines()) + "\n"


def _rates(view: RunView, seen: Snapshot) -> dict[str, Any]:
    return {
        "at": time.time(),
        Prong.CPU.value: seen.cpu.images_per_s,
        Prong.CSD.value: seen.csd.images_per_s,
        "trainer": seen.delivered_images_per_s,
        "percent": view.percent,
        "bad": view.bad_samples,
    }
