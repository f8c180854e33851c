"""Datasets: registered, scanned in the background, packed, looked at, removed."""

import uuid
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from ddlp.core.dataset import DatasetIndex, delete_index
from ddlp.core.dataset.selection import page as page_of
from ddlp.core.errors import InvalidInput, NotFound
from ddlp.core.messages import (
    DatasetCreate,
    DatasetInfo,
    DatasetRemoved,
    ForecastInfo,
    PackCreate,
    PreviewSample,
    RejectedInfo,
    RescanInfo,
)
from ddlp.core.messages.statistics import DatasetStatistics, QuarantinePage, SamplePage
from ddlp.core.preview import PreviewRequest
from ddlp.server import (
    datasets,
    forecasts,
    pack_folders,
    packings,
    pictures,
    pipelines,
    problems,
    quarantine,
    statistics,
    versions,
)
from ddlp.server.context import Context, ContextDep, SessionDep
from ddlp.server.forecasts import Expected, ForecastQuery
from ddlp.server.idempotency import OnceDep
from ddlp.server.models import Dataset
from ddlp.server.parameters import Epoch, Limit, Named, Offset, SampleNumber, Seed, Text
from ddlp.server.security import refuse_cross_site

router = APIRouter(prefix="/datasets", tags=["datasets"])


def find_ready(name: Named, context: ContextDep) -> Dataset:
    """A dataset that can be used; the database is let go before it is."""
    with context.database.session() as session:
        return datasets.find_ready(session, name)


ReadyDep = Annotated[Dataset, Depends(find_ready)]


def find_version(name: Named, context: ContextDep, version: Text = "") -> Dataset:
    """The same, in the version that begins so."""
    with context.database.session() as session:
        return datasets.find_version(session, name, version)


VersionDep = Annotated[Dataset, Depends(find_version)]

OnlyCopy = Annotated[
    bool, Query(description="Remove shards of the server's even if their origin is gone.")
]
KeepRuns = Annotated[
    bool, Query(description="Remove it although there are runs of it that are over; they stay.")
]
Every = Annotated[
    bool, Query(alias="all", description="Also earlier versions, which are kept for their runs.")
]
Samples = Annotated[
    str,
    Query(
        max_length=2000,
        pattern=r"^[0-9]{1,18}(,[0-9]{1,18})*$",
        description="Sample numbers, separated by commas.",
    ),
]
ClassName = Annotated[
    str | None, Query(alias="class", max_length=4096, description="Of this class only.")
]
Placeholder = Annotated[
    bool, Query(description="Instead of 404: a drawing (SVG) that says that there is no picture.")
]
_MOST_SHOWN = 64
_KEEP = {"Cache-Control": "private, max-age=300"}
# These start processes, so the page of another site must not ask for them.
_OWN_SITE = [Depends(refuse_cross_site)]


@router.post("", status_code=202)
async def register(body: DatasetCreate, context: ContextDep, once: OnceDep) -> DatasetInfo:
    """Register images and scan them in the background; ask for its state to follow it."""
    made: list[Dataset] = []

    def add() -> DatasetInfo:
        with context.database.session() as session:

            def make() -> DatasetInfo:
                context.scanner.check_room()
                made.append(datasets.add(session, context.settings, body))
                session.flush()
                return info(context, made[0])

            return once.answer(session, DatasetInfo, make)[0]

    found = await run_in_threadpool(add)
    if made:
        context.scanner.begin(made[0])
    return found


@router.get("")
def list_all(session: SessionDep, context: ContextDep, every: Every = False) -> list[DatasetInfo]:
    """All datasets, by name."""
    return [info(context, row) for row in datasets.list_all(session, every=every)]


@router.get("/{name}")
def show(name: Named, session: SessionDep, context: ContextDep) -> DatasetInfo:
    """One dataset."""
    return whole_info(context, session, datasets.find(session, name))


@router.post("/{name}/rescan", status_code=202)
async def rescan(name: Named, context: ContextDep, once: OnceDep) -> DatasetInfo:
    """Scan a dataset again, in the background; what differs is a new version of the same name.

    The version before can be used meanwhile, and runs over it go on with it. Ask for the dataset
    and its `rescan` to follow it. A rescan that is under way is not begun again.
    """
    context.scanner.check_room()
    begun: list[Dataset] = []

    def begin() -> DatasetInfo:
        with context.database.session() as session:

            def make() -> DatasetInfo:
                row, scan, is_new = datasets.rescan(session, name)
                begun.extend([scan] if is_new else [])
                session.flush()
                return info(context, row)

            return once.answer(session, DatasetInfo, make)[0]

    found = await run_in_threadpool(begin)
    if begun:
        context.scanner.begin(begun[0])
    return found


@router.delete("/{name}")
async def remove(
    name: Named, context: ContextDep, only_copy: OnlyCopy = False, keep_runs: KeepRuns = False
) -> DatasetRemoved:
    """Forget a dataset that nothing needs any more; shards that the server placed go with it.

    All other files stay where they are. Shards whose origin is not registered any more may be the
    only copy: they go with `only_copy=true` only.
    """
    row, scans = await run_in_threadpool(_remove, context, name, only_copy, keep_runs)
    for scan in scans:
        context.scanner.forget(scan)
    delete_index(Path(row.index_path))
    folder = None
    if row.packing is not None:
        folder = await run_in_threadpool(context.packer.forget, row)
    return DatasetRemoved(removed=name, folder=None if folder is None else str(folder))


@router.post("/{name}/pack", status_code=202)
def pack(name: Named, body: PackCreate, context: ContextDep, once: OnceDep) -> DatasetInfo:
    """Have workers make a packed dataset of this one; ask for its state to follow it.

    Asking twice for the same gives the same; one that failed is tried again.
    """
    return once.answer_after(context.database, DatasetInfo, lambda: _pack(context, name, body))


@router.get("/{name}/forecast", dependencies=_OWN_SITE)
def forecast(
    name: Named, query: Annotated[ForecastQuery, Query()], context: ContextDep
) -> ForecastInfo:
    """What packing it would come to: tried with a few samples."""
    return forecasts.forecast(*_forecast_of(context, name, query))


@router.get("/{name}/rejected")
def rejected(
    name: Named, session: SessionDep, offset: Offset = 0, limit: Limit = 100
) -> list[RejectedInfo]:
    """Files that the scan left out, and why."""
    return datasets.rejected(datasets.find_ready(session, name), offset, limit)


@router.get("/{name}/statistics")
def show_statistics(row: ReadyDep) -> DatasetStatistics:
    """How its samples are spread over classes and sizes; computed once a version."""
    return statistics.of(row)


@router.get("/{name}/quarantine")
def quarantined(
    name: Named, session: SessionDep, offset: Offset = 0, limit: Limit = 100
) -> QuarantinePage:
    """Samples that runs over it skipped or replaced, each once, those met last first."""
    return quarantine.of_dataset(session, datasets.find_ready(session, name), offset, limit)


@router.get("/{name}/samples")
def samples(
    row: ReadyDep,
    class_name: ClassName = None,
    seed: Seed = 0,
    offset: Offset = 0,
    limit: Limit = 24,
) -> SamplePage:
    """Some of its samples, of one class or of all, in their order or shuffled."""
    return page_of(DatasetIndex(Path(row.index_path)), class_name, seed, offset, limit)


@router.get("/{name}/samples/{sample}/thumbnail", response_class=Response, dependencies=_OWN_SITE)
def thumbnail(sample: SampleNumber, row: VersionDep, placeholder: Placeholder = False) -> Response:
    """A small JPEG of one sample, where one can be made; of this version, if one is named."""
    try:
        picture = pictures.thumbnail(row, sample)
    except NotFound as error:  # trying again soon would cost as much and give as little
        if placeholder:
            return Response(pictures.PLACEHOLDER, media_type="image/svg+xml", headers=_KEEP)
        return problems.answer(error, headers=_KEEP)
    return Response(picture, media_type="image/jpeg", headers=_KEEP)


def find_preview(
    name: Named,
    context: ContextDep,
    pipeline: Text = "imagenet-train",
    samples: Samples = "0",
    seed: Seed = 0,
    epoch: Epoch = 0,
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
    """A dataset with how far its scan or its packing has come."""
    progress = context.scanner.progress(row.id)
    return datasets.info(row, progress, context.packer.progress(row), _rescan_info(context, row))


def whole_info(context: Context, session: Session, row: Dataset) -> DatasetInfo:
    """The same with the names of its earlier versions."""
    kept = versions.earlier(session, row.name) if versions.is_current(row.name) else []
    return info(context, row).model_copy(update={"versions": kept})


def _rescan_info(context: Context, row: Dataset) -> RescanInfo | None:
    if row.rescan is None:
        return None
    said = dict(row.rescan)
    scan = said.pop("scan", None)
    progress = context.scanner.progress(uuid.UUID(scan)) if scan else None
    return RescanInfo(**said, progress=progress)


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


def _pack(context: Context, name: str, body: PackCreate) -> DatasetInfo:
    row = context.packer.draft(name, body)
    if packings.is_to_begin(row):
        expected = _expect(context, name, body)
        pack_folders.check_room(Path(row.uri), expected.bytes)
        row = context.packer.admit(name, body, expected)
    with context.database.session() as session:
        return info(context, datasets.find(session, row.name))


def _remove(
    context: Context, name: str, only_copy: bool, keep_runs: bool
) -> tuple[Dataset, list[uuid.UUID]]:
    """Forget a dataset; says which scans are not wanted any more."""
    with context.database.session() as session:
        scan = versions.under_way(session, name)
        row = datasets.remove(
            session, context.settings, name, only_copy=only_copy, keep_runs=keep_runs
        )
    return row, [row.id] if scan is None else [row.id, scan.id]


def _expect(context: Context, name: str, body: PackCreate) -> Expected:
    query = ForecastQuery(on=body.on, **body.choice.model_dump())
    return forecasts.expect(*_forecast_of(context, name, query))


def _forecast_of(
    context: Context, name: str, query: ForecastQuery
) -> tuple[Dataset, ForecastQuery, int]:
    """What a forecast needs; the database is let go before it is made."""
    with context.database.session() as session:
        row = datasets.find_ready(session, name)
        live = forecasts.live_slots(session, context.settings, query.on, context.dispatcher.now())
    return row, query, live
