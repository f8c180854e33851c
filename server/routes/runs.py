"""Runs: made, shown, paused, resumed, cancelled, replayed, switched to another strategy."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from ddlp.core.certificate import Certificate
from ddlp.core.errors import Conflict, NotFound
from ddlp.core.lifecycle import check_change
from ddlp.core.messages import (
    BadSampleInfo,
    EpochInfo,
    ReplayCreate,
    RunCreate,
    RunInfo,
    StrategyChange,
    WorkSpec,
)
from ddlp.core.messages.comparison import ComparisonInfo
from ddlp.core.messages.reports import RunReport
from ddlp.core.messages.timeline import TimelineInfo
from ddlp.core.types import RunState
from ddlp.server import certificates, comparisons, devices, figures, quarantine, runs
from ddlp.server.context import Context, ContextDep, SessionDep, done, find_run
from ddlp.server.models import Run
from ddlp.server.timeline import Timeline

router = APIRouter(prefix="/runs", tags=["runs"])


@router.post("", status_code=201)
async def create(body: RunCreate, context: ContextDep) -> RunInfo:
    """Make a run; its first batches are prepared at once."""
    return await _add(context, lambda session: runs.create(session, body))


@router.post("/{ref}/replay", status_code=201)
async def replay(ref: str, body: ReplayCreate, context: ContextDep) -> RunInfo:
    """Make a run that delivers the batches of this one again, in the same order."""
    return await _add(context, lambda session: runs.create_replay(session, ref, body))


async def _add(context: Context, make: Callable[[Session], Run]) -> RunInfo:
    def remember() -> tuple[Run, RunInfo]:
        with context.database.session() as session:
            row = make(session)
            now = context.dispatcher.now()
            runs.check_room(row, devices.list_all(session, context.settings, now))
            return row, runs.info(session, row)

    row, info = await run_in_threadpool(remember)
    # Should the server die before this, the reconciler finds the run.
    await done(context.dispatcher.call(lambda board, session, _: board.add_run(session, row)))
    return info


@router.get("")
def list_all(
    session: SessionDep,
    before: Annotated[float | None, Query(description="Created before this time.")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> list[RunInfo]:
    """Runs, the newest first; ask for the next page with the last one's created_at."""
    return runs.infos(session, runs.page(session, before, limit))


@router.get("/compare")
def compare(
    session: SessionDep,
    run: Annotated[
        list[str],
        Query(min_length=2, max_length=32, description="Names or ids; the first is the base."),
    ],
) -> ComparisonInfo:
    """Runs side by side; equal ones are repeats of each other, which gives intervals."""
    return comparisons.compare_runs(session, run)


@router.get("/{ref}")
def show(ref: str, session: SessionDep) -> RunInfo:
    """One run, by name or id."""
    return runs.info(session, runs.find(session, ref))


@router.get("/{ref}/work")
def work(ref: str, session: SessionDep) -> WorkSpec:
    """What a worker must know of a run."""
    return runs.work_spec(session, runs.find(session, ref))


@router.get("/{ref}/index", response_class=FileResponse)
def index(ref: str, session: SessionDep) -> FileResponse:
    """The index of a run's dataset, for workers that do not see the server's folder."""
    return FileResponse(runs.work_spec(session, runs.find(session, ref)).index_path)


@router.get("/{ref}/epochs")
def epochs(ref: str, session: SessionDep) -> list[EpochInfo]:
    """The epochs of a run that were opened."""
    return runs.epochs(session, runs.find(session, ref))


@router.get("/{ref}/epochs/{number}/certificate")
def certificate(ref: str, number: int, session: SessionDep) -> Certificate:
    """Proof of what one epoch delivered; sealed, and chained to the one before, once it is over."""
    return certificates.find(session, runs.find(session, ref), number)


@router.get("/{ref}/bad-samples")
def bad_samples(
    ref: str,
    session: SessionDep,
    before: Annotated[int | None, Query(description="Entries with a lower id.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[BadSampleInfo]:
    """Samples that were skipped or replaced, the newest first."""
    return quarantine.page(session, runs.find(session, ref), before, limit)


@router.get("/{ref}/series")
def series(
    ref: str, session: SessionDep, points: Annotated[int, Query(ge=2, le=1000)] = 300
) -> dict[str, Any]:
    """Images a second and watts over the run by source: cpu, csd, trainer, dram, gpu, idle."""
    return figures.series(session, runs.find(session, ref).id, points)


@router.get("/{ref}/report")
def report(ref: str, session: SessionDep) -> RunReport:
    """Where every second and every joule went, by device, stage and epoch."""
    return runs.report(session, runs.find(session, ref))


@router.get("/{ref}/timeline")
async def timeline(
    ref: str, context: ContextDep, seconds: Annotated[float, Query(gt=0, le=300)] = 120
) -> TimelineInfo:
    """Who did what in the last seconds of the run; of one that is over, its own last ones."""
    return await find_timeline(context, ref, seconds)


async def find_timeline(context: Context, ref: str, seconds: float) -> TimelineInfo:
    """The timeline of a run, from memory or as it was kept."""
    row = await find_run(context, ref)
    try:
        # The dispatcher has other things to do: it gives a copy, which is looked through here.
        found: Timeline = await done(
            context.dispatcher.call(lambda board, *_: board.run(row.id).timeline.copied())
        )
    except NotFound:
        return await run_in_threadpool(_kept_timeline, context, row, seconds)
    return await run_in_threadpool(found.info, context.dispatcher.now(), seconds)


def _kept_timeline(context: Context, row: Run, seconds: float) -> TimelineInfo:
    with context.database.session() as session:
        return runs.kept_timeline(session, row, seconds)


@router.post("/{ref}/pause")
async def pause(ref: str, context: ContextDep) -> RunInfo:
    """Give out no more work until it is resumed."""
    return await _change(context, ref, RunState.PAUSED)


@router.post("/{ref}/resume")
async def resume(ref: str, context: ContextDep) -> RunInfo:
    """Go on with a paused run."""
    return await _change(context, ref, RunState.RUNNING)


@router.post("/{ref}/cancel")
async def cancel(ref: str, context: ContextDep) -> RunInfo:
    """End a run for good."""
    return await _change(context, ref, RunState.CANCELLED)


@router.post("/{ref}/strategy")
async def strategy(ref: str, body: StrategyChange, context: ContextDep) -> RunInfo:
    """Go on with another strategy, in the middle of an epoch too; nobody has to start anew."""
    row = await find_run(context, ref)
    try:
        await done(
            context.dispatcher.call(
                lambda board, session, now: runs.switch(board.run(row.id), session, body, now)
            )
        )
    except NotFound as error:
        raise Conflict(f"run {row.name} is over; its strategy stays as it was") from error
    return await run_in_threadpool(_info, context, ref)


async def _change(context: Context, ref: str, wanted: RunState) -> RunInfo:
    row = await run_in_threadpool(_find_active, context, ref, wanted)
    try:
        await done(context.dispatcher.change_state(row.id, wanted))
    except NotFound:  # it ended this moment: say so
        await run_in_threadpool(_find_active, context, ref, wanted)
        raise
    return await run_in_threadpool(_info, context, ref)


def _find_active(context: Context, ref: str, wanted: RunState) -> Run:
    with context.database.session() as session:
        row = runs.find(session, ref)
        check_change(row.name, RunState(row.state), wanted)
        return row


def _info(context: Context, ref: str) -> RunInfo:
    with context.database.session() as session:
        return runs.info(session, runs.find(session, ref))
