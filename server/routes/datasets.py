"""Datasets: registered, scanned in the background, looked at, removed."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from ddlp.core.dataset import delete_index
from ddlp.core.errors import InvalidInput, NotFound
from ddlp.core.messages import DatasetCreate, DatasetInfo, PreviewSample, RejectedInfo
from ddlp.core.preview import PreviewRequest
from ddlp.server import datasets, pictures, pipelines
from ddlp.server.context import Context, ContextDep, SessionDep
from ddlp.server.models import Dataset

router = APIRouter(prefix="/datasets", tags=["datasets"])

Offset = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Samples = Annotated[str, Query(description="Sample numbers, separated by commas.")]
_MOST_SHOWN = 64
_KEEP = {"Cache-Control": "private, max-age=300"}


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


@router.get("/{name}/samples/{sample}/thumbnail", response_class=Response)
def thumbnail(name: str, sample: int, session: SessionDep, version: str = "") -> Response:
    """A small JPEG of one sample, where one can be made; of this version, if one is named."""
    row = datasets.find_ready(session, name)
    if not row.version.startswith(version):
        raise NotFound(f"dataset {name} has version {row.version[:12]} now, not {version}")
    return Response(pictures.thumbnail(row, sample), media_type="image/jpeg", headers=_KEEP)


@router.get("/{name}/preview")
def preview(
    name: str,
    session: SessionDep,
    pipeline: str = "imagenet-train",
    samples: Samples = "0",
    seed: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    epoch: Annotated[int, Query(ge=0)] = 0,
) -> list[PreviewSample]:
    """What a pipeline would do to samples: the parameters drawn for each, step by step."""
    row = datasets.find_ready(session, name)
    transforms = pipelines.find(session, pipeline).spec.transforms
    return pictures.explain(_preview(row, transforms, samples, seed, epoch))


@router.get("/{name}/preview.png", response_class=Response)
def preview_sheet(
    name: str,
    session: SessionDep,
    pipeline: str = "imagenet-train",
    samples: Samples = "0",
    seed: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    epoch: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """The samples themselves, as the pipeline makes them, on one sheet."""
    row = datasets.find_ready(session, name)
    transforms = pipelines.find(session, pipeline).spec.transforms
    sheet = pictures.sheet(_preview(row, transforms, samples, seed, epoch))
    return Response(sheet, media_type="image/png", headers=_KEEP)


def info(context: Context, row: Dataset) -> DatasetInfo:
    """A dataset with how far its scan has come."""
    return datasets.info(row, context.scanner.progress(row.id))


def _preview(
    row: Dataset, transforms: list[dict[str, object]], samples: str, seed: int, epoch: int
) -> PreviewRequest:
    try:
        numbers = [int(part) for part in samples.split(",")]
    except ValueError as error:
        raise InvalidInput(f"samples={samples!r} is not a list of numbers such as 0,5") from error
    if len(numbers) > _MOST_SHOWN or not all(0 <= number < row.samples for number in numbers):
        raise InvalidInput(
            f"samples={samples!r}: give up to {_MOST_SHOWN} numbers from 0 to {row.samples - 1}"
        )
    return PreviewRequest(
        index_path=Path(row.index_path),
        transforms=transforms,
        seed=seed,
        epoch=epoch,
        samples=numbers,
    )


def _add(context: Context, body: DatasetCreate) -> Dataset:
    with context.database.session() as session:
        return datasets.add(session, context.settings, body)


def _remove(context: Context, name: str) -> Dataset:
    with context.database.session() as session:
        return datasets.remove(session, name)
