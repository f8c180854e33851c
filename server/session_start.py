"""How a session goes on: from a state, from an epoch's beginning, or with what is left."""

import uuid
from dataclasses import replace

from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, InvalidInput, Unavailable
from ddlp.core.messages import Begin, Where
from ddlp.core.sessions import Checkpoint, Start
from ddlp.server import ledger, sessions
from ddlp.server.board import ActiveRun, Board, TrainerSession
from ddlp.server.models import Epoch, Run
from ddlp.server.rewinding import Rewind, rewind, take_over, where


def begin(board: Board, session: Session, run_id: uuid.UUID, body: Begin, now: float) -> Where:
    """A session goes on as it says; it receives nothing before."""
    if body.start not in _BEGIN:
        raise InvalidInput(f"start is one of {', '.join(_BEGIN)}, not {body.start}")
    run = sessions.on_board(board, session, run_id, now)
    sessions.take(board, run, body, now)
    sessions.come_back(session, run, now)
    if body.checkpoint is not None:
        run.schedule.note_checkpoint(body.checkpoint)
    aim = _AIM.get(body.start, _said)(run, body)
    _check_together(run, body, aim)
    found = _BEGIN[body.start](board, session, run, body, now)
    held = run.sessions[body.rank]
    turn = held.turn + 1
    aim = found.epoch, found.position + found.step * body.attach.world_size
    run.hold(body.rank, replace(held, begun=True, turn=turn, went=aim, gone=False, heard_at=now))
    return found.model_copy(update={"turn": turn})


def _said(_: ActiveRun, body: Begin) -> Checkpoint:
    """The place that a session names."""
    if body.state is not None:
        return body.state.first_epoch, 0 if body.state.complete else body.state.position
    return body.epoch, body.position if body.start is Start.STATE else 0


def _stands(run: ActiveRun, body: Begin) -> Checkpoint:
    """The place where a rank stands."""
    if body.rank >= run.schedule.plan.world_size:
        return 0, 0
    return _stands_at(run, body.rank)


def _rest(run: ActiveRun, _: Begin) -> Checkpoint:
    """The place behind the last step that all ranks are known to have done."""
    ranks = range(run.schedule.plan.world_size)
    return _place(run, *min(run.schedule.stands(rank) for rank in ranks))


_AIM = {Start.BEGINNING: _stands, Start.CONTINUE: _rest}


def _place(run: ActiveRun, number: int, step: int) -> Checkpoint:
    epoch = run.schedule.epochs.get(number)
    return number, 0 if epoch is None else epoch.place(0, step)


def _check_together(run: ActiveRun, body: Begin, aim: Checkpoint) -> None:
    """Refuse a rank that goes elsewhere than the others of its job did, who wait for it there.

    A rank that was started again alone may go to where the others have been since. One that was not
    heard of lately may be of an earlier job, whose processes are dead: it is waited for until it is
    heard of, or another process takes its rank.
    """
    mine = run.sessions[body.rank]
    for rank, held in run.sessions.items():
        beside = rank != body.rank and held.world_size == body.attach.world_size
        if not beside or held.gone or held.turn != mine.turn + 1 or held.went in (None, aim):
            continue
        if rank >= run.schedule.plan.world_size or _was_at(run, rank, held, aim, body.start):
            continue
        if held.heard_at <= mine.since:
            raise Unavailable(f"rank {rank} of run {run.name} is waited for, to see where it is")
        raise Conflict(
            f"rank {body.rank} of run {run.name} would go on at {_words(aim)}, but rank {rank} "
            f"of the same job went on at {_words(held.went)}; all ranks must load the same "
            "state or give the same start: is the checkpoint there on every host?"
        )


def _was_at(run: ActiveRun, rank: int, held: TrainerSession, aim: Checkpoint, start: Start) -> bool:
    """Whether another rank has passed a place that a state, or what is left, leads to."""
    assert held.went is not None
    return start is not Start.EPOCH and held.went <= aim <= _stands_at(run, rank)


def _stands_at(run: ActiveRun, rank: int) -> Checkpoint:
    return _place(run, *run.schedule.stands(rank))


def _words(place: Checkpoint | None) -> str:
    assert place is not None
    return f"place {place[1]} of epoch {place[0]}"


def _from_beginning(
    board: Board, session: Session, run: ActiveRun, body: Begin, now: float
) -> Where:
    schedule = run.schedule
    if body.attach.world_size != schedule.plan.world_size:
        raise Conflict(_choices(run, 0))
    number, step = schedule.stands(body.rank)
    if sessions.under_way(run, body.rank):
        raise Conflict(_choices(run, number, step))
    schedule.join(body.rank, str(body.session), Start.BEGINNING)
    return where(schedule, number, step)


def _from_state(board: Board, session: Session, run: ActiveRun, body: Begin, now: float) -> Where:
    """Its own state leads back; one of another run is gone on from."""
    state, schedule = body.state, run.schedule
    if body.run is None or body.run == str(run.id):
        return _rewound(board, session, run, body, Start.STATE, now)
    if state is None:
        raise InvalidInput(
            f"the state was taken in run {body.run} before all was known that another run needs; "
            "load it into that run, or take an earlier checkpoint"
        )
    if _ancestor(session, state.run, str(run.id)):
        raise Conflict(
            f"run {run.name} came before the run that the state was taken in; load it into a new "
            f"run: ddlp run clone {run.name}"
        )
    mine = next((e.origin for e in schedule.epochs.values() if e.origin == state), None)
    if mine is None or body.attach.world_size != schedule.plan.world_size:
        take_over(session, run, state, body.settled, body.attach.world_size, now)
        schedule.note_checkpoint((state.epoch, state.position))
        schedule.join(body.rank, str(body.session), Start.STATE)
        number = min(schedule.epochs)
        return where(schedule, number, 0)
    number = state.epoch + state.complete
    position = 0 if state.complete else state.position
    return _rewound(
        board,
        session,
        run,
        body.model_copy(update={"epoch": number, "position": position}),
        Start.STATE,
        now,
    )


def _ancestor(session: Session, run_id: str, of: str) -> bool:
    """Whether a run went on from another one, perhaps by way of further ones."""
    seen: set[str] = set()
    while run_id not in seen:
        seen.add(run_id)
        try:
            rows = session.query(Epoch.origin).where(Epoch.run_id == uuid.UUID(run_id))
        except ValueError:
            return False
        origins = [row.origin["run"] for row in rows if row.origin is not None]
        if not origins:
            return False
        if of in origins:
            return True
        run_id = origins[0]
    return False


def _from_epoch(board: Board, session: Session, run: ActiveRun, body: Begin, now: float) -> Where:
    schedule, same_ranks = run.schedule, body.attach.world_size == run.schedule.plan.world_size
    known = schedule.plan.epochs
    if not schedule.plan.has_epoch(body.epoch) and body.epoch != known:
        raise Conflict(
            f"run {run.name} has {known} epochs, and {body.epoch} is beyond the "
            f"next one; extend it with: ddlp run extend {run.name} --epochs {body.epoch + 1}"
        )
    if body.epoch > schedule.next_epoch and not same_ranks:
        raise Conflict(
            f"run {run.name} has come to epoch {schedule.next_epoch}; another number of ranks can "
            f"begin with that or an earlier one, not with epoch {body.epoch}"
        )
    start = _kind_of(run, body)
    if body.epoch == known:
        extend(session, run, body.epoch + 1)
    if body.epoch > schedule.next_epoch:
        schedule.join(body.rank, str(body.session), start)
        return where(schedule, body.epoch, 0)
    to = body.model_copy(update={"position": 0})
    return _rewound(board, session, run, to, start, now)


def _kind_of(run: ActiveRun, body: Begin) -> Start:
    """How a session that asks for an epoch comes to that: by a state, onward, or once more."""
    if body.checkpoint == (body.epoch, 0):
        return Start.STATE
    schedule = run.schedule
    known = schedule.sessions.get(body.rank)
    if known is None or known[0] != str(body.session):
        return Start.EPOCH
    if (body.epoch, 0) < schedule.stands(body.rank):
        return Start.AGAIN
    epoch = schedule.epochs.get(body.epoch)
    mine = [p for p in (epoch.parts if epoch is not None else ()) if p.session == known[0]]
    return mine[0].start if mine else Start.ONWARD  # it may have come there and received nothing


def _continue(board: Board, session: Session, run: ActiveRun, body: Begin, now: float) -> Where:
    """Take what is left after the last step that all ranks are known to have done.

    Ranks that train in step must have as many steps left as each other, and those that were killed
    may not have said the same.
    """
    schedule = run.schedule
    ranks = schedule.plan.world_size
    number, step = min(schedule.stands(rank) for rank in range(ranks))
    if body.attach.world_size == ranks and schedule.stands(body.rank) == (number, step):
        schedule.join(body.rank, str(body.session), Start.CONTINUE)
        return where(schedule, number, step)
    epoch = schedule.epochs.get(number)
    position = 0 if epoch is None else epoch.place(0, step)
    to = body.model_copy(update={"epoch": number, "position": position})
    return _rewound(board, session, run, to, Start.CONTINUE, now)


_BEGIN = {
    Start.BEGINNING: _from_beginning,
    Start.STATE: _from_state,
    Start.EPOCH: _from_epoch,
    Start.CONTINUE: _continue,
}


def _rewound(
    board: Board, session: Session, run: ActiveRun, body: Begin, start: Start, now: float
) -> Where:
    ranks = body.attach.world_size
    state = body.state if start is Start.STATE and body.run == str(run.id) else None
    to = Rewind(body.rank, body.session, ranks, body.epoch, body.position, start, state)
    return rewind(board, session, run.id, to, now)


def extend(session: Session, run: ActiveRun, epochs: int) -> None:
    """Give a run more epochs."""
    known = run.schedule.plan.epochs
    if known is None:
        raise Conflict(f"run {run.name} is open-ended; it needs no more epochs")
    if epochs <= known:
        raise InvalidInput(f"run {run.name} has {known} epochs; {epochs} is not more")
    run.schedule.plan = replace(run.schedule.plan, epochs=epochs)
    session.get_one(Run, run.id).epochs = epochs


def extend_run(board: Board, session: Session, run_id: uuid.UUID, epochs: int, now: float) -> None:
    """Give a run more epochs, whether it is under way or was completed."""
    row = session.get_one(Run, run_id)
    if row.epochs is not None and epochs <= row.epochs:
        raise InvalidInput(f"run {row.name} has {row.epochs} epochs; {epochs} is not more")
    extend(session, sessions.on_board(board, session, run_id, now), epochs)
    ledger.audit(session, "run.extend", row.name, now, epochs=epochs)


def _choices(run: ActiveRun, number: int, step: int = 0) -> str:
    where_ = f"epoch {number}" + (f", step {step}" if step else "")
    return (
        f"run {run.name} is under way ({where_}), and this process has loaded no state of it. Say "
        "how to go on: load_state_dict(state) to go on from a checkpoint; "
        f"DualLoader(…, start=N) or set_epoch(N) to have epoch N and those after it from its "
        'beginning; start="continue" to take what is left, although what earlier processes '
        "learned may be lost"
    )
