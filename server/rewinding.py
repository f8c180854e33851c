"""A way back: a rank, or another number of ranks, goes to a place of a run that it has passed."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.messages import Where
from ddlp.core.plan import Segment
from ddlp.core.schedule import Batch, EpochSchedule, RunSchedule
from ddlp.core.sessions import Start
from ddlp.core.takeover import Origin
from ddlp.core.types import EpochState
from ddlp.server import ledger
from ddlp.server.board import ActiveRun, Board
from ddlp.server.models import Epoch, Run


@dataclass(frozen=True)
class Rewind:
    """Where a rank goes; all ranks of a job go to the same place."""

    rank: int
    session: uuid.UUID
    world_size: int
    epoch: int
    position: int
    start: Start = Start.STATE
    state: Origin | None = None
    """The state that leads there, where one does that says all."""


@dataclass(frozen=True)
class _Way:
    """A way back: who goes where, and the epochs from there on that were opened."""

    session: Session
    run: ActiveRun
    row: Run
    to: Rewind
    known: dict[int, EpochSchedule]

    @property
    def schedule(self) -> RunSchedule:
        return self.run.schedule

    @property
    def other_ranks(self) -> bool:
        return self.to.world_size != self.schedule.plan.world_size


def rewind(board: Board, session: Session, run_id: uuid.UUID, to: Rewind, now: float) -> Where:
    """A rank goes back to a place it has passed, in this epoch or an earlier one."""
    run = board.run(run_id)
    schedule = run.schedule
    row = session.get_one(Run, run_id)
    if to.rank >= to.world_size:
        raise InvalidInput(f"rank {to.rank} is not in a world of {to.world_size}")
    save(session, run, now)
    way = _Way(session, run, row, to, _known(session, schedule, row, to.epoch))
    first = way.known.get(to.epoch)
    if first is not None and to.state is not None and to.position:
        _check_line(way, first, to.state)
    if first is None:
        _begin(way, now)
    elif to.world_size == first.segment.world_size and to.position >= first.segment.position:
        _go_back(way, first, now)
    else:
        _cut_anew(way, first, now)
    if to.start is Start.STATE:
        for number, epoch in schedule.epochs.items():
            if number < to.epoch:
                schedule.pass_by(to.rank, epoch)
    ledger.unseal_from(session, run_id, to.epoch)
    if to.start is Start.STATE:
        schedule.note_checkpoint((to.epoch, to.position))
    schedule.join(to.rank, str(to.session), to.start)
    step = 0
    if (epoch_now := schedule.epochs.get(to.epoch)) is not None:
        step = (to.position - epoch_now.segment.position) // epoch_now.segment.world_size
        schedule.consume(to.rank, to.epoch, step)
    return where(schedule, to.epoch, step)


def where(schedule: RunSchedule, number: int, step: int) -> Where:
    """Where a rank stands that has consumed so many steps of an epoch."""
    epoch = schedule.epochs.get(number)
    segments = tuple(epoch.segments) if epoch else (schedule.plan.whole,)
    return Where(
        epoch=number,
        step=step,
        rounds=segments[-1].rounds,
        position=segments[-1].position,
        heads=epoch.heads_before(step) if epoch else 0,
        segments=segments,
        epochs=schedule.plan.epochs,
    )


def save(session: Session, run: ActiveRun, now: float) -> None:
    """Write down what changed so far; the files that can go are left to the end of the group."""
    changes = run.schedule.changes()
    ledger.save_changes(session, run.id, changes, now)
    run.schedule.keep_void(changes.void)


def _known(
    session: Session, schedule: RunSchedule, row: Run, number: int
) -> dict[int, EpochSchedule]:
    """An epoch and those after it that were opened; one that was skipped can be begun."""
    opened = ledger.opened_from(session, row.id, number)
    known = {n: schedule.epochs.get(n) or ledger.load_epoch(session, row, n) for n in opened}
    if number not in known and number < schedule.next_epoch:
        known[number] = _whole(schedule, number, known)
    return dict(sorted(known.items()))


def _whole(schedule: RunSchedule, number: int, known: Mapping[int, EpochSchedule]) -> EpochSchedule:
    """An epoch from its beginning; what another run delivered counts up to there."""
    epoch = EpochSchedule.fresh(number, schedule.plan.whole)
    taken = next((e.origin for e in known.values() if e.origin is not None), None)
    epoch.origin = None if taken is None else taken.before(number, schedule.plan)
    epoch.parts_changed = True
    return epoch


def _begin(way: _Way, now: float) -> None:
    """An epoch that was never opened: it can only be begun."""
    to, schedule = way.to, way.schedule
    if to.position or to.epoch > schedule.next_epoch:
        raise Conflict(
            f"place {to.position} of epoch {to.epoch} cannot be gone to: run {way.run.name} has "
            f"not come to it; its next epoch is {schedule.next_epoch}"
        )
    if way.other_ranks:
        _change_ranks(way, now)


def _check_line(way: _Way, epoch: EpochSchedule, state: Origin) -> None:
    """Refuse a state of what the run went back behind and then did otherwise."""
    cuts, last = tuple(epoch.segments[: len(state.segments)]), state.segments[-1]
    dealt = ledger.dealt_from(way.session, way.run.id, state.epoch, last.position)
    before = [batch for batch in dealt if (batch.position or 0) < state.position]
    heads = sum(not batch.from_tail for batch in before)
    known = len(before) == state.position - last.position
    if cuts != state.segments or (known and heads != state.heads):
        raise Conflict(
            f"run {way.run.name} went back behind this state, and delivered epoch {state.epoch} "
            "otherwise since; load a later state, or this one into a new run: "
            f"ddlp run clone {way.run.name}"
        )


def _go_back(way: _Way, first: EpochSchedule, now: float) -> None:
    """The same ranks get the same batches again, for the same steps."""
    to, schedule = way.to, way.schedule
    step, over = divmod(to.position - first.segment.position, first.segment.world_size)
    if over:
        raise InvalidInput(f"place {to.position} lies in the middle of a step of all ranks")
    if step > first.dealt_to(to.rank):
        raise Conflict(
            f"rank {to.rank} cannot go to step {step} of epoch {to.epoch}: it has "
            f"received {first.dealt_to(to.rank)} batches of it"
        )
    later = [epoch for number, epoch in way.known.items() if number > to.epoch]
    if way.other_ranks or not all(_is_whole(epoch, to.world_size) for epoch in later):
        _change_ranks(way, now)
        schedule.resume(first)
    schedule.epochs |= {n: e for n, e in way.known.items() if n < schedule.next_epoch}
    schedule.epochs = dict(sorted(schedule.epochs.items()))
    for number, epoch in schedule.epochs.items():
        if number >= to.epoch:
            _go_back_in(way, epoch, step if number == to.epoch else 0)


def _is_whole(epoch: EpochSchedule, world_size: int) -> bool:
    """Whether an epoch can be delivered again as it is cut: all of it, to so many ranks."""
    cut = len(epoch.segments) > 1 or epoch.origin is not None
    return not cut and epoch.segment.world_size == world_size


def _go_back_in(way: _Way, epoch: EpochSchedule, step: int) -> None:
    rank, schedule = way.to.rank, way.schedule
    dealt = ledger.dealt_from(way.session, way.run.id, epoch.number, epoch.place(rank, step))
    epoch.remember_deals(dealt)
    again = [batch for batch in dealt if _was_consumed(epoch, batch, rank)]
    schedule.go_back(rank, epoch.number, step, again)
    for batch in again:
        schedule.note(batch)


def _was_consumed(epoch: EpochSchedule, batch: Batch, rank: int) -> bool:
    """Whether a batch was consumed by a rank."""
    assert batch.position is not None
    place = batch.position - epoch.segment.position
    return place % epoch.segment.world_size == rank and epoch.is_consumed(batch.position)


def _cut_anew(way: _Way, epoch: EpochSchedule, now: float) -> None:
    """Another number of ranks goes on from a place: what is left of the epoch is cut anew."""
    to, schedule, run_id = way.to, way.schedule, way.run.id
    if to.position == 0:
        _begin_anew(way, epoch, now)
        return
    segment = _segment_at(way, epoch)
    heads = ledger.heads_before(way.session, run_id, to.epoch, segment, to.position)
    dealt = len(ledger.dealt_from(way.session, run_id, to.epoch, segment.position))
    if to.position - segment.position > dealt:
        raise Conflict(
            f"place {to.position} of epoch {to.epoch} cannot be gone to: "
            f"{segment.position + dealt} batches of it were delivered"
        )
    epoch.part_all()
    _change_ranks(way, now)
    ledger.forget_from(way.session, run_id, to.epoch, to.position)
    epoch.uncut(to.position)
    tails = to.position - segment.position - heads
    schedule.cut_anew(epoch, heads, tails, to.world_size)
    ledger.recount(way.session, run_id, epoch)


def _segment_at(way: _Way, epoch: EpochSchedule) -> Segment:
    """The segment of an epoch that a place lies in."""
    before = [cut for cut in epoch.segments if cut.position <= way.to.position]
    if not before:
        raise Conflict(
            f"place {way.to.position} of epoch {epoch.number} was delivered by another run; load "
            "the state that was taken there"
        )
    return before[-1]


def _begin_anew(way: _Way, epoch: EpochSchedule, now: float) -> None:
    """An epoch is delivered again from its beginning, whoever began it."""
    schedule = way.schedule
    epoch.part_all()
    _change_ranks(way, now)
    ledger.forget_from(way.session, way.run.id, way.to.epoch, 0)
    _void(schedule, epoch)
    schedule.resume(_whole(schedule, way.to.epoch, way.known))


def check_unneeded(session: Session, run: Run, epoch: int, position: int) -> None:
    """Refuse to take back what another run went on from: its proof needs these certificates."""
    for name, origin in followers_of(session, run.id):
        if (origin["epoch"], origin["position"]) > (epoch, position):
            raise Conflict(
                f"run {name} went on from place {origin['position']} of epoch {origin['epoch']} of "
                f"run {run.name}, and its proof needs what was delivered before; go back in a new "
                f"run instead: ddlp run clone {run.name}"
            )


def followers_of(session: Session, run_id: uuid.UUID) -> list[tuple[str, dict[str, Any]]]:
    """The runs that went on from a run, each with the place where it took over."""
    rows = session.execute(
        select(Run.name, Epoch.origin)
        .join(Epoch, Epoch.run_id == Run.id)
        .where(Epoch.origin.is_not(None), Run.id != run_id)
    )
    return [(name, origin) for name, origin in rows if origin["run"] == str(run_id)]


def _change_ranks(way: _Way, now: float) -> None:
    """Other ranks go on in an epoch: those before it are over, those after it never were."""
    run, schedule, to = way.run, way.schedule, way.to
    check_unneeded(way.session, way.row, to.epoch, to.position)
    plan = replace(schedule.plan, world_size=to.world_size)
    if not plan.batches:
        raise InvalidInput(
            f"{plan.samples} samples do not fill one batch of {plan.batch_size} for each of "
            f"{to.world_size} ranks; go on with fewer"
        )
    for number, epoch in schedule.epochs.items():
        epoch.part_all()
        if number < to.epoch:
            _close(way, epoch)
    save(way.session, run, now)
    for number, epoch in schedule.epochs.items():
        if number > to.epoch:
            _void(schedule, epoch)
    ledger.forget_after(way.session, run.id, to.epoch)
    schedule.epochs, schedule.next_epoch = {}, to.epoch
    schedule.plan = plan
    schedule.rank_epoch = [to.epoch] * to.world_size
    run.keep_sessions(to.world_size)
    way.row.world_size = to.world_size


def _close(way: _Way, epoch: EpochSchedule) -> None:
    """All ranks have left an epoch."""
    schedule = way.schedule
    if way.to.start is Start.STATE:
        for rank in range(epoch.segment.world_size):
            schedule.pass_by(rank, epoch)
    if epoch.state is EpochState.OPEN:
        epoch.state, epoch.changed = EpochState.ABANDONED, True
        _void(schedule, epoch)


def take_over(
    session: Session,
    run: ActiveRun,
    origin: Origin,
    settled: dict[str, float],
    world_size: int,
    now: float,
) -> None:
    """Have a run go on where another one was left; whatever it did itself never was."""
    schedule, row = run.schedule, session.get_one(Run, run.id)
    if not schedule.plan.has_epoch(origin.epoch):
        raise Conflict(
            f"the state is of epoch {origin.epoch}, and run {run.name} has {schedule.plan.epochs}; "
            f"give it more with: ddlp run extend {run.name} --epochs N"
        )
    origin.check(schedule.plan)
    check_unneeded(session, row, 0, 0)
    own, _ = ledger.complete_epochs(session, run.id)
    detail = {"of": origin.run, "epoch": origin.epoch, "position": origin.position, "own": own}
    ledger.audit(session, "run.took_over", row.name, now, **detail)
    save(session, run, now)
    schedule.plan = replace(schedule.plan, world_size=world_size)
    epoch = schedule.take_over(origin, settled)
    ledger.forget_after(session, run.id, -1)
    ledger.unseal_from(session, run.id, 0)
    epoch.parts_changed = True
    run.keep_sessions(world_size)
    row.world_size = world_size


def _void(schedule: RunSchedule, epoch: EpochSchedule) -> None:
    """Nothing that is under way in an epoch is wanted any more."""
    for batch in epoch.under_way:
        schedule.note_void(batch, batch.device, batch.token)
