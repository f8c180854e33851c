"""A run's page, and the live stream behind it."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from ddlp.core.errors import NotFound
from ddlp.core.types import Prong
from ddlp.server import audit, limits, proofs, quarantine, reports, runs, snapshot
from ddlp.server.batch_owners import NOTHING, batch_owners
from ddlp.server.board import Board
from ddlp.server.context import Context, ContextDep, done, find_run
from ddlp.server.models import Run
from ddlp.server.routes.events import Stream
from ddlp.server.routes.runs import find_timeline
from ddlp.server.security import refuse_cross_site
from ddlp.server.snapshot import Snapshot
from ddlp.web.data_views import BadView, bad_view
from ddlp.web.front_views import shown_epoch
from ddlp.web.live import Hub, Look
from ddlp.web.proof_views import proof_view
from ddlp.web.run_views import RunFacts, RunView, run_view
from ddlp.web.templating import templates
from ddlp.web.timeline_views import TimelineView, timeline_view
from ddlp.web.training_views import training_view

_EPOCHS = 12
_EVENTS = 20
_BAD = 20
_WINDOWS_S = (10.0, 30.0, 60.0)
"""How much of the timeline is shown: the shortest that holds all there is, if one does."""
_SLOW = 3
"""What changes slowly, or is large, is drawn at every third look only."""
_QUICK_PARTS = {"head": "head", "both": "fronts", "tiles": "tiles", "spent": "spent"}
_SLOW_PARTS = {
    "images-legend": "images_legend",
    "watts-legend": "watts_legend",
    "energy": "energy",
    "epochs": "epochs",
    "events": "events",
    "read-paths": "reads",
    "controls": "controls",
    "timeline": "timeline",
    "bad": "bad",
}
"""Templates by the id of the element that they fill."""

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class _Moment:
    """What the dispatcher knows of a run; nothing once it is over."""

    seen: Snapshot | None = None
    stored: Mapping[Prong, int] | None = None


async def get_hub(request: Request) -> Hub:
    """The channels of this server's live pages."""
    found: Hub = request.app.state.hub
    return found


HubDep = Annotated[Hub, Depends(get_hub)]


@router.get("/runs/{ref}")
async def run_page(ref: str, request: Request, context: ContextDep) -> HTMLResponse:
    """One run."""
    row = await find_run(context, ref)
    view, bad = await run_in_threadpool(_read, context, row.name, await _moment(context, row))
    values = {
        "run": view,
        "bad": bad,
        "timeline": await _timeline(context, ref),
        "training": training_view(
            view.name,
            str(request.base_url),
            view.world_size,
            keys=context.settings.keys == "required",
        ),
    }
    return templates.TemplateResponse(request, "run.html", values)


@router.get("/runs/{ref}/live")
async def live(ref: str, context: ContextDep, hub: HubDep) -> StreamingResponse:
    """What changes on a run's page, again and again until the run is over."""
    row = await find_run(context, ref)

    async def look(number: int) -> Look:
        moment = await _moment(context, row)
        every = moment.seen is None or number % _SLOW == 0
        timeline = await _timeline(context, row.name) if every else None
        return await run_in_threadpool(_draw, context, row.name, moment, timeline)

    return Stream(context, hub.follow(row.id, look))


@router.get("/runs/{ref}/proof", dependencies=[Depends(refuse_cross_site)])
def proof(ref: str, request: Request, context: ContextDep) -> HTMLResponse:
    """What checking the certificates of a run comes to."""
    with context.database.session() as session:
        found = proofs.prove(session, runs.find(session, ref))
    return templates.TemplateResponse(request, "run/proof.html", {"proof": proof_view(found)})


async def _moment(context: Context, row: Run) -> _Moment:
    """The run as it stands."""

    def take(board: Board, _: Session, now: float) -> _Moment:
        return _Moment(snapshot.take(board, row.id, now), limits.in_force(board, row.id))

    try:
        found: _Moment = await done(context.dispatcher.call(take))
    except NotFound:
        return _Moment()
    return found


async def _timeline(context: Context, ref: str) -> TimelineView:
    found = await find_timeline(context, ref, max(_WINDOWS_S))
    first = min((span.start_at for span in found.spans), default=found.now)
    window_s = next((s for s in _WINDOWS_S if s >= found.now - first), max(_WINDOWS_S))
    return await run_in_threadpool(timeline_view, found, window_s)


def _read(context: Context, ref: str, moment: _Moment) -> tuple[RunView, BadView]:
    with context.database.session() as session:
        row = runs.find(session, ref)
        info = runs.info(session, row)
        epochs = runs.epochs(session, row, _EPOCHS)
        shown = shown_epoch(epochs, moment.seen)
        facts = RunFacts(
            info=info,
            epochs=epochs,
            devices=reports.devices(session, row),
            events=audit.page(session, subject=row.name, action="run", limit=_EVENTS),
            consumed=runs.consumed(session, row),
            limits=limits.info(context.settings, row, moment.stored),
            owners=NOTHING if shown is None else batch_owners(session, row.id, shown),
        )
        return run_view(facts, moment.seen), bad_view(
            info, quarantine.page(session, row, None, _BAD)
        )


def _draw(context: Context, ref: str, moment: _Moment, timeline: TimelineView | None) -> Look:
    """The parts of the page; without a timeline, only those that change quickly."""
    view, bad = _read(context, ref, moment)
    parts = _QUICK_PARTS if timeline is None else _QUICK_PARTS | _SLOW_PARTS
    html = {
        place: templates.get_template(f"run/{name}.html").render(
            run=view, bad=bad, timeline=timeline
        )
        for place, name in parts.items()
    }
    return Look(html, json.dumps(_figures(view, moment.seen)), over=moment.seen is None)


def _figures(view: RunView, seen: Snapshot | None) -> dict[str, Any]:
    if seen is None:
        return {"percent": view.percent, "at": None}
    rates = {
        Prong.CPU.value: seen.cpu.images_per_s,
        Prong.CSD.value: seen.csd.images_per_s,
        "trainer": seen.delivered_images_per_s,
    }
    return {
        "percent": view.percent,
        "at": round(time.time(), 1),
        "images_per_s": rates,
        "watts": seen.watts,
    }
