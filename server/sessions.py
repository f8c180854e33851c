"""Training sessions: which process holds which rank of a run.

A rank is held by one living process. Who comes to a run that is under way must say how it goes on
(`server/session_start.py`). When the last trainer leaves, the run is paused until one comes back.
"""

import uuid
from dataclasses import replace

from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.messages import Attach, Begin, Holder, Leave, Taken, Where
from ddlp.core.types import RunState
from ddlp.server import ledger
from ddlp.server.board import ActiveRun, Board, TrainerSession
from ddlp.server.models import Run
from ddlp.server.rewinding import save, where

LEFT = "no trainer is connected; the run resumes when one connects"


def attach(
    board: Board, session: Session, run: ActiveRun, body: Attach, now: float
) -> tuple[Where, bool] | Taken:
    """Give a rank to a process: where it goes on, and whether it must say how."""
    if body.rank >= body.world_size:
        raise InvalidInput(f"rank {body.rank} is not in a world of {body.world_size}")
    schedule = run.schedule
    for rank in [r for r, held in run.sessions.items() if held.id in body.dead and not held.gone]:
        _end(session, run, rank, now)
    taken = _holder(board, run, body, now)
    if taken is not None:
        return taken
    known = run.sessions.get(body.rank)
    if known is not None and known.id == body.session and known.begun:  # asked again, and late
        return where(schedule, *schedule.stands(body.rank)), False
    other_world = body.world_size != schedule.plan.world_size
    if other_world:
        check_world(session.get_one(Run, run.id), body)
        if not _delivered(run):
            _share_anew(session, run, body.world_size, now)
            other_world = False
    run.hold(body.rank, TrainerSession.of(body, now))
    if other_world:
        return where(schedule, min(schedule.epochs, default=schedule.next_epoch), 0), True
    schedule.leave(body.rank)
    come_back(session, run, now)
    number, step = schedule.stands(body.rank)
    return where(schedule, number, step), under_way(run, body.rank)


def take(board: Board, run: ActiveRun, body: Begin, now: float) -> None:
    """Let a session begin that holds its rank, or that comes to a rank that nobody holds."""
    taken = _holder(board, run, body.attach, now)
    held = run.sessions.get(body.rank)
    mine = held is not None and held.id == body.session
    if taken is not None or not (mine or held is None or held.gone):
        raise Conflict(taken_words(run.name, body.rank))
    if not mine:
        run.hold(body.rank, TrainerSession.of(body.attach, now))


def reopen(board: Board, session: Session, row: Run, now: float) -> ActiveRun:
    """Take up a run that was completed: it waits for a trainer, and nobody holds its ranks."""
    ledger.change_state(session, row, RunState.PAUSED, now, LEFT, left=True)
    run = board.add_run(session, row, now)
    for rank, held in list(run.sessions.items()):
        run.hold(rank, replace(held, gone=True))
    return run


def note_checkpoint(run: ActiveRun, body: Leave) -> None:
    """Take note of a state that was taken by a session that holds its rank, and has begun."""
    held = run.sessions.get(body.rank)
    mine = held is not None and held.id == body.session and held.begun
    if mine and body.checkpoint is not None:
        run.schedule.note_checkpoint(body.checkpoint)


def leave(
    board: Board, session: Session, run: ActiveRun, rank: int, who: uuid.UUID, now: float
) -> None:
    """A session ends: its rank is free."""
    held = run.sessions.get(rank)
    if held is not None and held.id == who and not held.gone:
        _end(session, run, rank, now)
        run.hold(rank, replace(run.sessions[rank], left=True))


def note_silent(board: Board, session: Session, run: ActiveRun, now: float) -> None:
    """Count sessions as gone that were not heard of for too long."""
    for rank, held in list(run.sessions.items()):
        if not held.gone and now - held.heard_at > board.settings.trainer_timeout_s:
            ledger.audit(session, "trainer.lost", run.name, now, rank=rank, host=held.host)
            _end(session, run, rank, now)


def heard_of(run: ActiveRun, session: Session, rank: int, who: uuid.UUID, now: float) -> None:
    """A session says that it lives; another one than the rank's is shut out."""
    held = run.sessions.get(rank)
    if held is None or held.id != who or held.left:
        raise Conflict(taken_words(run.name, rank))
    held.heard_at = now
    if held.gone:
        run.hold(rank, replace(held, gone=False))
    come_back(session, run, now)


def come_back(session: Session, run: ActiveRun, now: float) -> None:
    """A trainer is there: a run that waited for one goes on."""
    if run.state is RunState.PAUSED and run.left:
        ledger.change_state(session, session.get_one(Run, run.id), RunState.RUNNING, now)
        run.state, run.reason, run.left = RunState.RUNNING, None, False


def taken_words(run: str, rank: int) -> str:
    """Said to a process whose rank another one holds."""
    return (
        f"rank {rank} of run {run} is held by another process now; this one receives nothing more. "
        "Give each process a rank of its own, or make a run for each job"
    )


def _end(session: Session, run: ActiveRun, rank: int, now: float) -> None:
    run.hold(rank, replace(run.sessions[rank], gone=True))
    if rank < run.schedule.plan.world_size:
        run.schedule.leave(rank)
    alone = all(held.gone for held in run.sessions.values())
    if alone and run.state is RunState.RUNNING and not run.schedule.finished:
        row = session.get_one(Run, run.id)
        ledger.change_state(session, row, RunState.PAUSED, now, LEFT, left=True)
        run.state, run.reason, run.left = RunState.PAUSED, LEFT, True


def _holder(board: Board, run: ActiveRun, body: Attach, now: float) -> Taken | None:
    """The living process that stands in the way of another one."""
    limit_s = board.settings.trainer_timeout_s
    for rank, held in run.sessions.items():
        in_the_way = rank == body.rank or held.world_size != body.world_size
        if held.gone or not in_the_way or now - held.heard_at > limit_s:
            continue
        if held.id == body.session:
            continue
        holder = Holder(
            session=held.id,
            host=held.host,
            place=held.place,
            process=held.process,
            rank=rank,
            world_size=held.world_size,
            heard_s=max(0.0, now - held.heard_at),
        )
        return Taken(holder=holder, timeout_s=limit_s)
    return None


def check_world(row: Run, body: Attach) -> None:
    """Refuse a job of another size than the one that a run was created for."""
    if row.fixed_ranks and row.world_size != body.world_size:
        raise InvalidInput(
            f"run {row.name} was created for {row.world_size} "
            f"{'rank' if row.world_size == 1 else 'ranks'}, and this job has {body.world_size}; "
            f"start {row.world_size} of them, or create the run without --world-size, so that it "
            "takes the number from its trainers"
        )


def _delivered(run: ActiveRun) -> bool:
    """Whether anything of a run was handed to a trainer."""
    schedule = run.schedule
    handed = any(epoch.position for epoch in schedule.epochs.values())
    return handed or min(schedule.epochs, default=schedule.next_epoch) > 0 or _has_origin(run)


def under_way(run: ActiveRun, rank: int) -> bool:
    """Whether a rank must say how it goes on: it, or a run before this one, was handed batches."""
    schedule = run.schedule
    passed = schedule.stands(rank) > (0, 0)
    return passed or schedule.may_have_trained(rank) or _has_origin(run)


def _has_origin(run: ActiveRun) -> bool:
    return any(epoch.origin is not None for epoch in run.schedule.epochs.values())


def _share_anew(session: Session, run: ActiveRun, world_size: int, now: float) -> None:
    """The first trainers say how many ranks share a run."""
    plan = replace(run.schedule.plan, world_size=world_size)
    if not plan.batches:
        raise InvalidInput(
            f"{plan.samples} samples do not fill one batch of {plan.batch_size} for each of "
            f"{world_size} ranks; use fewer ranks or a smaller batch size"
        )
    save(session, run, now)
    run.schedule.change_ranks(world_size)
    ledger.forget_after(session, run.id, -1)
    run.keep_sessions(world_size)
    session.get_one(Run, run.id).world_size = world_size


def on_board(board: Board, session: Session, run_id: uuid.UUID, now: float) -> ActiveRun:
    """A run that is active, or that is over and can go on."""
    if run_id in board.runs:
        return board.runs[run_id]
    row = session.get(Run, run_id)
    if row is None or RunState(row.state) not in TERMINAL:
        return board.run(run_id)
    return reopen(board, session, row, now)
