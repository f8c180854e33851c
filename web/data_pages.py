"""Pages of datasets: the list, and one with what its scan left out."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from ddlp.core.types import DatasetState
from ddlp.server import datasets
from ddlp.server.context import ContextDep, SessionDep
from ddlp.server.routes.datasets import info
from ddlp.web.data_views import dataset_view, rejected_rows
from ddlp.web.pages import templates

_SHOWN = 100

router = APIRouter(include_in_schema=False)


@router.get("/datasets")
def index(request: Request, session: SessionDep, context: ContextDep) -> HTMLResponse:
    """All datasets."""
    views = [dataset_view(info(context, row)) for row in datasets.list_all(session)]
    return templates.TemplateResponse(request, "datasets.html", {"datasets": views})


@router.get("/datasets/{name}")
def dataset_page(
    name: str,
    request: Request,
    session: SessionDep,
    context: ContextDep,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> HTMLResponse:
    """One dataset."""
    row = datasets.find(session, name)
    ready = row.state == DatasetState.READY.value
    found = datasets.rejected(row, offset, _SHOWN) if ready and row.rejected else []
    rest = offset + len(found)
    return templates.TemplateResponse(
        request,
        "dataset.html",
        {
            "dataset": dataset_view(info(context, row)),
            "rejected": rejected_rows(found),
            "next": rest if rest < row.rejected else None,
        },
    )
