"""Datasets: registered, scanned in the background, looked at, removed."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from ddlp.core.dataset import delete_index
from ddlp.core.errors import InvalidInput, NotFound
from ddlp.core.messages import DatasetCreate, DatasetInfo, PreviewSample, RejectedInfo
from ddlp.core.preview import PreviewRequest
from ddlp.server import datasets, pictures, pipelines
from ddlp.server.context import Context, ContextDep, SessionDep
from ddlp.server.models import Dataset
from ddlp.server.security import refuse_cross_site

router = APIRouter(prefix="/datasets", tags=["datasets"])

Offset = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Samples = Annotated[str, Query(description="Sample numbers, separated by commas.")]
_MOST_SHOWN = 64
_KEEP = {"Cache-Control": "private, max-age=300"}
# These start processes, so the page of another site must not ask for them.
_OWN_SITE = [Depends(refuse_cross_site)]


@router.post("", status_code=202)
async def register(body: DatasetCreate, context: ContextDep) -> DatasetInfo:
    """Register images and scan them in the background; ask for its state to follow it."""
    context.scanner.check_room()
    row = await run_in_threadpool(_add, context, body)
    context.scanner.begin(row)
    return info(context, row)


@router.get("")
def list_all(session: SessionDep, context: ContextDep) -> list[DatasetInfo]:
    """All datasets, by name."""
    return [info(context, row) for row in datasets.list_all(session)]


@router.get("/{name}")
def show(name: str, session: SessionDep, context: ContextDep) -> DatasetInfo:
    """One dataset."""
    return info(context, datasets.find(session, name))


@router.delete("/{name}")
async def remove(name: str, context: ContextDep) -> None:
    """Forget a dataset that no run needs any more; its files stay where they are."""
    row = await run_in_threadpool(_remove, context, name)
    context.scanner.forget(row.id)
    delete_index(Path(row.index_path))


@router.get("/{name}/rejected")
def rejected(
    name: str, session: SessionDep, offset: Offset = 0, limit: Limit = 100
) -> list[RejectedInfo]:
    """Files that the scan left out, and why."""
    return datasets.rejected(datasets.find_ready(session, name), offset, limit)


@router.get("/{name}/samples/{sample}/thumbnail", response_class=Response, dependencies=_OWN_SITE)
def thumbnail(name: str, sample: int, context: ContextDep, version: str = "") -> Response:
    """A small JPEG of one sample, where one can be made; of this version, if one is named."""
    with context.database.session() as session:
        row = datasets.find_ready(session, name)
    if not row.version.startswith(version):
        raise NotFound(f"dataset {name} has version {row.version[:12]} now, not {version}")
    try:
        picture = pictures.thumbnail(row, sample)
    except NotFound as error:  # trying again soon would cost as much and give as little
        return JSONResponse({"detail": str(error)}, error.status, headers=_KEEP)
    return Response(picture, media_type="image/jpeg", headers=_KEEP)


def find_preview(
    name: str,
    context: ContextDep,
    pipeline: str = "imagenet-train",
    samples: Samples = "0",
    seed: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    epoch: Annotated[int, Query(ge=0)] = 0,
) -> PreviewRequest:
    """What is to be shown; the database is let go before it is made."""
    with context.database.session() as session:
        row = datasets.find_ready(session, name)
        transforms = pipelines.find(session, pipeline).spec.transforms
    return PreviewRequest(
        index_path=Path(row.index_path),
        transforms=transforms,
        samples=_numbers(samples, row.samples),
        seed=seed,
        epoch=epoch,
    )


PreviewDep = Annotated[PreviewRequest, Depends(find_preview)]


@router.get("/{name}/preview", dependencies=_OWN_SITE)
def preview(request: PreviewDep) -> list[PreviewSample]:
    """What a pipeline would do to samples: the parameters drawn for each, step by step."""
    return pictures.explain(request)


@router.get("/{name}/preview.png", response_class=Response, dependencies=_OWN_SITE)
def preview_sheet(request: PreviewDep) -> Response:
    """The samples themselves, as the pipeline makes them, on one sheet."""
    return Response(pictures.sheet(request), media_type="image/png", headers=_KEEP)


def info(context: Context, row: Dataset) -> DatasetInfo:
    """A dataset with how far its scan has come."""
    return datasets.info(row, context.scanner.progress(row.id))


def _numbers(samples: str, count: int) -> list[int]:
    try:
        numbers = [int(part) for part in samples.split(",")]
    except ValueError as error:
        raise InvalidInput(f"samples={samples!r} is not a list of numbers such as 0,5") from error
    if len(numbers) > _MOST_SHOWN or not all(0 <= number < count for number in numbers):
        raise InvalidInput(
            f"samples={samples!r}: give up to {_MOST_SHOWN} numbers from 0 to {count - 1}"
        )
    return numbers


def _add(context: Context, body: DatasetCreate) -> Dataset:
    with context.database.session() as session:
        return datasets.add(session, context.settings, body)


def _remove(context: Context, name: str) -> Dataset:
    with context.database.session() as session:
        return datasets.remove(session, name)
