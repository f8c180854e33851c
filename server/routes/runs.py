"""Runs: made, shown, proved, paused, cancelled, tried again, cloned, extended, deleted."""

import asyncio
import logging
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import FileResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from ddlp.core.certificate import Certificate
from ddlp.core.errors import Conflict, DdlpError, NotFound, Unavailable
from ddlp.core.lifecycle import ACTIVE, check_change
from ddlp.core.messages import (
    BadSampleInfo,
    CancelInfo,
    CancelMany,
    EpochInfo,
    LimitsChange,
    LimitsInfo,
    ReplayCreate,
    RetryCreate,
    RunClone,
    RunCreate,
    RunDeleted,
    RunExtend,
    RunInfo,
    StrategyChange,
    WorkSpec,
)
from ddlp.core.messages.comparison import ComparisonInfo
from ddlp.core.messages.proof import ProofInfo
from ddlp.core.messages.reports import RunReport
from ddlp.core.messages.run_list import RunListQuery
from ddlp.core.messages.timeline import TimelineInfo
from ddlp.core.types import RunState
from ddlp.server import (
    certificates,
    comparisons,
    devices,
    figures,
    limits,
    proofs,
    quarantine,
    retries,
    run_clones,
    run_list,
    run_removal,
    runs,
    session_start,
)
from ddlp.server.context import Context, ContextDep, SessionDep, done, find_run
from ddlp.server.idempotency import Once, OnceDep
from ddlp.server.models import Run
from ddlp.server.parameters import Before, Epoch, EpochNumber, Limit, RunRef, RunRefs
from ddlp.server.security import refuse_cross_site
from ddlp.server.timeline import Timeline

router = APIRouter(prefix="/runs", tags=["runs"])

log = logging.getLogger(__name__)


@router.post("", status_code=201)
async def create(body: RunCreate, context: ContextDep, once: OnceDep) -> RunInfo:
    """Make a run; its first batches are prepared at once."""
    return await _add(context, once, lambda session: runs.create(session, body))


@router.post("/{ref}/clone", status_code=201)
async def clone(ref: RunRef, body: RunClone, context: ContextDep, once: OnceDep) -> RunInfo:
    """Make a run with the settings of this one; what the body gives takes their place."""
    return await _add(context, once, lambda session: run_clones.create_clone(session, ref, body))


@router.delete("/{ref}")
async def delete(ref: RunRef, context: ContextDep) -> RunDeleted:
    """Delete a run that is over, with its batches, certificates and figures; the audit stays."""
    row = await find_run(context, ref)
    name: str = await done(
        context.dispatcher.call(
            lambda board, session, now: run_removal.delete_run(board, session, row.id, now)
        )
    )
    return RunDeleted(deleted=name)


@router.post("/{ref}/replay", status_code=201)
async def replay(ref: RunRef, body: ReplayCreate, context: ContextDep, once: OnceDep) -> RunInfo:
    """Make a run that delivers the batches of this one again, in the same order."""
    return await _add(context, once, lambda session: runs.create_replay(session, ref, body))


@router.post("/{ref}/retry", status_code=201)
async def retry(ref: RunRef, body: RetryCreate, context: ContextDep, once: OnceDep) -> RunInfo:
    """Try a run that failed or was cancelled again: a new run with all that decided the old one."""
    return await _add(context, once, lambda session: retries.create_retry(session, ref, body))


async def _add(context: Context, once: Once, make: Callable[[Session], Run]) -> RunInfo:
    made: list[Run] = []

    def remember(session: Session) -> RunInfo:
        row = make(session)
        there = devices.list_all(session, context.settings, context.dispatcher.now())
        runs.check_room(row, there)
        made.append(row)
        found = limits.info(
            context.settings, row, limits.first_windows(context.settings, row, there)
        )
        return runs.info(session, row).model_copy(update={"limits": found})

    def write() -> RunInfo:
        with context.database.session() as session:
            return once.answer(session, RunInfo, lambda: remember(session))[0]

    info = await run_in_threadpool(write)
    if not made:
        return info
    try:
        await done(
            context.dispatcher.call(lambda board, session, _: board.add_run(session, made[0]))
        )
    except Unavailable as error:
        # The run is there, and must not look as if it were not: the reconciler takes it up.
        log.warning("run %s is not begun yet: %s", info.name, error)
    return info


@router.get("")
def list_all(
    asked: Annotated[RunListQuery, Query()], session: SessionDep, response: Response
) -> list[RunInfo]:
    """Runs, the newest first unless told otherwise; a Link header leads to the pages beside it."""
    found = run_list.page(session, asked)
    given = asked.model_dump(mode="json", exclude_unset=True, exclude={"cursor"})
    links = [
        f'</api/v1/runs?{urlencode({**given, "cursor": cursor}, doseq=True)}>; rel="{rel}"'
        for rel, cursor in (("next", found.next), ("prev", found.previous))
        if cursor
    ]
    if links:
        response.headers["Link"] = ", ".join(links)
    return runs.infos(session, found.rows)


@router.get("/compare")
def compare(
    session: SessionDep,
    run: RunRefs,
) -> ComparisonInfo:
    """Runs side by side; equal ones are repeats of each other, which gives intervals."""
    return comparisons.compare_runs(session, run)


@router.post("/cancel")
async def cancel_many(body: CancelMany, context: ContextDep) -> list[CancelInfo]:
    """End runs for good; what cannot be cancelled is told why, and does not stop the others."""
    refs = list(dict.fromkeys(body.runs))
    ends = await asyncio.gather(*(_end(context, ref) for ref in refs))
    return [
        CancelInfo(run=ref, cancelled=reason is None, reason=reason)
        for ref, reason in zip(refs, ends, strict=True)
    ]


async def _end(context: Context, ref: str) -> str | None:
    """Cancel a run; why that did not work."""
    try:
        await _change_state(context, ref, RunState.CANCELLED)
    except DdlpError as error:
        return str(error)
    return None


@router.get("/{ref}")
async def show(ref: RunRef, context: ContextDep) -> RunInfo:
    """One run, by name or id."""
    return await _show(context, ref)


@router.get("/{ref}/work")
def work(ref: RunRef, session: SessionDep) -> WorkSpec:
    """What a worker must know of a run."""
    return runs.work_spec(session, runs.find(session, ref))


@router.get("/{ref}/index", response_class=FileResponse)
def index(ref: RunRef, session: SessionDep) -> FileResponse:
    """The index of a run's dataset, for workers that do not see the server's folder."""
    return FileResponse(runs.work_spec(session, runs.find(session, ref)).index_path)


@router.get("/{ref}/epochs")
def epochs(ref: RunRef, session: SessionDep) -> list[EpochInfo]:
    """The epochs of a run that were opened."""
    return runs.epochs(session, runs.find(session, ref))


@router.get("/{ref}/epochs/{number}/certificate")
def certificate(ref: RunRef, number: EpochNumber, session: SessionDep) -> Certificate:
    """Proof of what one epoch delivered; sealed, and chained to the one before, once it is over."""
    return certificates.find(session, runs.find(session, ref), number)


@router.get("/{ref}/verify", dependencies=[Depends(refuse_cross_site)])
def verify(
    ref: RunRef,
    session: SessionDep,
    first: Epoch = 0,
    limit: Annotated[int, Query(ge=1, le=proofs.MOST_EPOCHS)] = proofs.MOST_EPOCHS,
) -> ProofInfo:
    """Check the certificates of a run, and their chain, for as many epochs as a few seconds allow.

    Where `next` is not null, ask on from there. `ddlp verify` does the same away from the server.
    """
    return proofs.prove(session, runs.find(session, ref), first, limit)


@router.get("/{ref}/bad-samples")
def bad_samples(
    ref: RunRef,
    session: SessionDep,
    before: Before = None,
    limit: Limit = 100,
) -> list[BadSampleInfo]:
    """Samples that were skipped or replaced, the newest first."""
    return quarantine.page(session, runs.find(session, ref), before, limit)


@router.get("/{ref}/series")
def series(
    ref: RunRef, session: SessionDep, points: Annotated[int, Query(ge=2, le=1000)] = 300
) -> dict[str, Any]:
    """Images a second and watts over the run by source: cpu, csd, trainer, dram, gpu, idle."""
    return figures.series(session, runs.find(session, ref).id, points)


@router.get("/{ref}/report")
def report(ref: RunRef, session: SessionDep) -> RunReport:
    """Where every second and every joule went, by device, stage and epoch."""
    return runs.report(session, runs.find(session, ref))


@router.get("/{ref}/timeline")
async def timeline(
    ref: RunRef, context: ContextDep, seconds: Annotated[float, Query(gt=0, le=300)] = 120
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
async def pause(ref: RunRef, context: ContextDep) -> RunInfo:
    """Give out no more work until it is resumed."""
    return await _change(context, ref, RunState.PAUSED)


@router.post("/{ref}/resume")
async def resume(ref: RunRef, context: ContextDep) -> RunInfo:
    """Go on with a paused run."""
    return await _change(context, ref, RunState.RUNNING)


@router.post("/{ref}/cancel")
async def cancel(ref: RunRef, context: ContextDep) -> RunInfo:
    """End a run for good."""
    return await _change(context, ref, RunState.CANCELLED)


@router.post("/{ref}/extend")
async def extend(ref: RunRef, body: RunExtend, context: ContextDep) -> RunInfo:
    """Give a run more epochs; one that was completed waits for a trainer then."""
    row = await find_run(context, ref)
    if RunState(row.state) in (RunState.FAILED, RunState.CANCELLED):
        raise Conflict(
            f"run {row.name} is {row.state}; start it again with: ddlp run retry {row.name}"
        )
    await done(
        context.dispatcher.call(
            lambda board, session, now: session_start.extend_run(
                board, session, row.id, body.epochs, now
            )
        )
    )
    return await _show(context, ref)


@router.post("/{ref}/strategy")
async def strategy(ref: RunRef, body: StrategyChange, context: ContextDep) -> RunInfo:
    """Go on with another strategy, in the middle of an epoch too; nobody has to start anew."""
    row = await find_run(context, ref)
    try:
        await done(
            context.dispatcher.call(
                lambda board, session, now: runs.switch(board.run(row.id), session, body, now)
            )
        )
    except NotFound as error:
        raise Conflict(
            f"run {row.name} is over; its strategy stays as it was. Make another like it with: "
            f"ddlp run clone {row.name} --strategy {body.strategy}"
        ) from error
    return await _show(context, ref)


@router.post("/{ref}/limits")
async def change_limits(ref: RunRef, body: LimitsChange, context: ContextDep) -> RunInfo:
    """Let more or less of a run lie unconsumed, while it works: what is under way is let finish."""
    row = await find_run(context, ref)
    try:
        await done(
            context.dispatcher.call(
                lambda board, session, now: limits.change(board, session, row.id, body, now)
            )
        )
    except NotFound as error:
        raise Conflict(
            f"run {row.name} is over; its limits stay as they were. Make another like it, with its "
            f"own limits, with: ddlp run clone {row.name}"
        ) from error
    return await _show(context, ref)


async def find_limits(context: Context, row: Run) -> LimitsInfo:
    """The limits of a run, with what comes of them now."""
    stored = None
    if RunState(row.state) in ACTIVE:
        ask = context.dispatcher.call(lambda board, *_: limits.in_force(board, row.id))
        stored = await done(ask)
    return limits.info(context.settings, row, stored)


async def _change(context: Context, ref: str, wanted: RunState) -> RunInfo:
    await _change_state(context, ref, wanted)
    return await _show(context, ref)


async def _change_state(context: Context, ref: str, wanted: RunState) -> None:
    row = await run_in_threadpool(_find_active, context, ref, wanted)
    try:
        await done(context.dispatcher.change_state(row.id, wanted))
    except NotFound:  # it ended this moment: say so
        await run_in_threadpool(_find_active, context, ref, wanted)
        raise


def _find_active(context: Context, ref: str, wanted: RunState) -> Run:
    with context.database.session() as session:
        row = runs.find(session, ref)
        check_change(row.name, RunState(row.state), wanted, row.left)
        return row


async def _show(context: Context, ref: str) -> RunInfo:
    row, info = await run_in_threadpool(_info, context, ref)
    return await _limited(context, row, info)


async def _limited(context: Context, row: Run, info: RunInfo) -> RunInfo:
    return info.model_copy(update={"limits": await find_limits(context, row)})


def _info(context: Context, ref: str) -> tuple[Run, RunInfo]:
    with context.database.session() as session:
        row = runs.find(session, ref)
        return row, runs.info(session, row)
