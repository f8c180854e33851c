"""Pages of datasets: the list with the form for another one, and one dataset with its samples."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.selection import page as page_of
from ddlp.core.errors import NotFound
from ddlp.core.messages.statistics import SamplePage
from ddlp.core.types import DatasetState
from ddlp.server import datasets, pictures, places, quarantine, roots, statistics
from ddlp.server.context import ContextDep, SessionDep
from ddlp.server.models import Dataset
from ddlp.server.routes.datasets import ReadyDep, info, whole_info
from ddlp.server.security import refuse_cross_site
from ddlp.web.data_views import dataset_view, place_view, rejected_rows
from ddlp.web.root_views import root_rows
from ddlp.web.sample_views import GRID, SHUFFLED, Asked, Shown, grid_view, quarantine_view
from ddlp.web.statistics_views import StatisticsView, statistics_view
from ddlp.web.templating import templates

_REJECTED = 100
_QUARANTINED = 20
_QUICK = 1_000_000
"""Up to so many samples are counted while the page is made; more than that, when it is there."""
_OWN_SITE = [Depends(refuse_cross_site)]

Place = Annotated[str, Query(max_length=4096)]
Offset = Annotated[int, Query(ge=0, lt=2**62)]

router = APIRouter(include_in_schema=False)


def find_asked(
    class_name: Annotated[str, Query(alias="class", max_length=4096)] = "",
    seed: Annotated[int, Query(ge=0, lt=2**62)] = SHUFFLED,
    at: Offset = 0,
) -> Asked:
    """Which samples somebody wants to see; an empty class is every class."""
    return Asked(class_name or None, seed, at)


AskedDep = Annotated[Asked, Depends(find_asked)]


@router.get("/datasets")
def index(
    request: Request, session: SessionDep, context: ContextDep, uri: Place = "", name: str = ""
) -> HTMLResponse:
    """All datasets, a form for another one, and the folders that they may be read from."""
    if uri:  # which makes the server look at its disks
        refuse_cross_site(request)
    folders = roots.allowed(session, context.settings)
    values = {
        "datasets": [dataset_view(info(context, row)) for row in datasets.list_all(session)],
        "place": place_view(places.look(folders, uri), uri),
        "name": name,
        "roots": root_rows(roots.list_all(session, context.settings)),
    }
    return templates.TemplateResponse(request, "datasets.html", values)


@router.get("/places", dependencies=_OWN_SITE)
def look(request: Request, context: ContextDep, uri: Place = "") -> HTMLResponse:
    """What lies at a place, while somebody types it."""
    with context.database.session() as session:  # which is let go before disks are looked at
        folders = roots.allowed(session, context.settings)
    place = place_view(places.look(folders, uri), uri)
    return templates.TemplateResponse(request, "dataset/place.html", {"place": place})


@router.get("/datasets/{name}")
def dataset_page(
    name: str,
    request: Request,
    context: ContextDep,
    session: SessionDep,
    asked: AskedDep,
    rejected: Offset = 0,
    quarantined: Offset = 0,
    count: bool = False,
) -> HTMLResponse:
    """One dataset."""
    row = datasets.find(session, name)
    view = dataset_view(whole_info(context, session, row))
    if row.state != DatasetState.READY.value:
        return templates.TemplateResponse(request, "dataset.html", {"dataset": view})
    found = datasets.rejected(row, rejected, _REJECTED) if row.rejected else []
    rest = rejected + len(found)
    bad = quarantine.of_dataset(session, row, quarantined, _QUARANTINED)
    return templates.TemplateResponse(
        request,
        "dataset.html",
        {
            "dataset": view,
            "statistics": _statistics(row, wait=count or row.samples <= _QUICK),
            "grid": grid_view(_shown(row), asked, *_samples(row, asked)),
            "grid_query": asked.query(asked.offset),
            "rejected": rejected_rows(found),
            "next_rejected": rest if rest < row.rejected else None,
            "quarantine": quarantine_view(_shown(row), quarantined, bad),
        },
    )


@router.get("/datasets/{name}/samples", dependencies=_OWN_SITE)
def samples(request: Request, row: ReadyDep, asked: AskedDep) -> HTMLResponse:
    """The grid; its pictures are made at once, in one process, before the browser asks for them."""
    found, problem = _samples(row, asked)
    pictures.prepare(row, [sample.sample for sample in found.samples])
    grid = grid_view(_shown(row), asked, found, problem)
    return templates.TemplateResponse(request, "dataset/samples.html", {"grid": grid})


@router.get("/datasets/{name}/statistics")
def count_samples(request: Request, row: ReadyDep) -> HTMLResponse:
    """How its samples are spread, however long that takes."""
    found = {"statistics": statistics_view(row.name, statistics.of(row))}
    return templates.TemplateResponse(request, "dataset/statistics.html", found)


def _statistics(row: Dataset, *, wait: bool) -> StatisticsView | None:
    found = statistics.of(row) if wait else statistics.known(row)
    return None if found is None else statistics_view(row.name, found)


def _samples(row: Dataset, asked: Asked) -> tuple[SamplePage, str | None]:
    """What the grid shows; or why there is nothing, such as a class that was mistyped."""
    index = DatasetIndex(Path(row.index_path))
    try:
        return page_of(index, asked.class_name, asked.seed, asked.offset, GRID), None
    except NotFound as error:
        return SamplePage(total=0, samples=[]), str(error)


def _shown(row: Dataset) -> Shown:
    return Shown(row.name, row.version, list(row.classes))
