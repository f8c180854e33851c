"""Runs side by side."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from ddlp.core.errors import InvalidInput, NotFound
from ddlp.core.messages.run_list import RunListQuery
from ddlp.server import comparisons, run_list, runs
from ddlp.server.context import SessionDep
from ddlp.server.models import Run
from ddlp.web.compare_views import MOST, ChooseView, CompareView, compare_view
from ddlp.web.templating import templates

_OFFERED = 200

router = APIRouter(include_in_schema=False)


@router.get("/runs/compare")
def compare(request: Request, session: SessionDep) -> HTMLResponse:
    """Two to six runs beside each other; otherwise a form that chooses them."""
    wanted = list(dict.fromkeys(filter(None, map(str.strip, request.query_params.getlist("run")))))
    offered = run_list.page(session, RunListQuery(limit=_OFFERED)).rows
    problem, status, known = None, 200, []
    try:
        known = _known(session, wanted)
        if len(known) >= 2:
            values = {"compare": _view(session, known), "offered": [row.name for row in offered]}
            return templates.TemplateResponse(request, "compare.html", values)
        problem = "Choose one more to compare it with." if known else None
    except (NotFound, InvalidInput) as error:
        problem, status = str(error), error.status
    chosen = {row.name for row in known} | set(wanted)
    choose = ChooseView(
        problem,
        [
            (row.name, f"{row.state} · {row.dataset} · {row.strategy}", row.name in chosen)
            for row in offered
        ],
    )
    return templates.TemplateResponse(request, "compare.html", {"choose": choose}, status)


def _known(session: Session, wanted: list[str]) -> list[Run]:
    """The runs by name or id, each once."""
    if len(wanted) > MOST:
        raise InvalidInput(f"{len(wanted)} runs are too many to compare; choose at most {MOST}")
    found = [runs.find(session, ref) for ref in wanted]
    return list({row.id: row for row in found}.values())


def _view(session: Session, rows: list[Run]) -> CompareView:
    return compare_view(
        comparisons.compare_runs(session, [row.name for row in rows]),
        runs.infos(session, rows),
        [runs.report(session, row) for row in rows],
    )
