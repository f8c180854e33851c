"""The front page: the list of runs."""

import calendar
import time
import uuid
from collections.abc import Iterable

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import ValidationError
from sqlalchemy import func, select
from starlette.concurrency import run_in_threadpool

from ddlp.core.errors import InvalidInput
from ddlp.core.messages.run_list import RunListQuery, RunSort
from ddlp.core.types import RunState
from ddlp.server import devices, run_list, runs
from ddlp.server.context import Context, ContextDep, done
from ddlp.server.models import Dataset
from ddlp.web.run_list_views import ListFacts, RunListView, glance, run_list_view
from ddlp.web.templating import templates

_SHOWN = 50
_DAY_S = 86_400.0

router = APIRouter(include_in_schema=False)


@router.get("/")
async def index(request: Request, context: ContextDep) -> HTMLResponse:
    """Runs; what a form leaves empty narrows nothing down."""
    asked = _asked(request.query_params.getlist("state"), dict(request.query_params))
    rates = await done(
        context.dispatcher.call(lambda board, _, now: run_list.live_rates(board, now))
    )
    view, words = await run_in_threadpool(_read, context, asked, rates)
    values = {"runs": view, "glance": words}
    return await run_in_threadpool(templates.TemplateResponse, request, "runs.html", values)


def _asked(states: Iterable[str], given: dict[str, str]) -> RunListQuery:
    since, until = (_day(given.get(name, "")) for name in ("since", "until"))
    names = ("search", "dataset", "strategy", "pipeline", "cursor")
    known = {state.value for state in RunState}
    try:
        return RunListQuery(
            state=[RunState(state) for state in dict.fromkeys(states) if state in known],
            after=since,
            before=None if until is None else until + _DAY_S,
            sort=RunSort(given.get("sort") or RunSort.CREATED),
            ascending=given.get("order") == "up",
            limit=_SHOWN,
            **{name: given[name] for name in names if given.get(name)},
        )
    except ValidationError as error:
        raise InvalidInput(f"that list cannot be made: {error.errors()[0]['msg']}") from error
    except ValueError as error:
        choices = ", ".join(RunSort)
        raise InvalidInput(f"{given['sort']} is no order of runs; choose {choices}") from error


def _day(text: str) -> float | None:
    """When a day begins (UTC)."""
    if not text:
        return None
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%d")))
    except ValueError as error:
        raise InvalidInput(f"{text} is not a day; write it like 2026-01-31") from error


def _read(
    context: Context, asked: RunListQuery, rates: dict[uuid.UUID, run_list.LiveRate]
) -> tuple[RunListView, tuple[str, str]]:
    with context.database.session() as session:
        found = run_list.page(session, asked)
        facts = ListFacts(
            infos=runs.infos(session, found.rows),
            counts=run_list.counts(session, asked),
            choices=run_list.choices(session),
            delivered=run_list.delivered(session, [row.id for row in found.rows]),
            rates=rates,
            next=found.next,
            previous=found.previous,
        )
        known = devices.list_all(session, context.settings, context.dispatcher.now())
        datasets = session.scalar(select(func.count()).select_from(Dataset)) or 0
    return run_list_view(facts, asked), glance(known, datasets)
