"""What trainers ask: where a rank goes on, its next batches, and a way back to a checkpoint."""

import logging
import uuid
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.logs import about
from ddlp.core.messages import (
    Attach,
    Damaged,
    Fed,
    FedBatch,
    FeedRequest,
    Rewind,
    TrainerAccount,
    Where,
)
from ddlp.core.schedule import Batch, EpochSchedule, RunSchedule, blamed, explain_wait
from ddlp.core.store import batch_name
from ddlp.core.store.served import access_token
from ddlp.core.types import EpochState, RunState, Spending
from ddlp.server import ledger
from ddlp.server.board import ActiveRun, Board
from ddlp.server.models import Run
from ddlp.server.telemetry import TRAINER, Bucket, spent

log = logging.getLogger(__name__)


def attach(run: ActiveRun, session: uuid.UUID, body: Attach) -> Where:
    """Where a rank goes on; an earlier process of it is shut out.

    A world of another size is told where the run stands, and must load a state to go on.
    """
    schedule = run.schedule
    if body.rank >= body.world_size:
        raise InvalidInput(f"rank {body.rank} is not in a world of {body.world_size}")
    if body.world_size != schedule.plan.world_size:
        return _where(schedule, schedule.next_epoch, 0)
    run.sessions[body.rank] = session
    run.hosts[body.rank] = body.host
    for number in sorted(schedule.epochs):
        epoch = schedule.epochs[number]
        done = epoch.acknowledged[body.rank]
        if done < epoch.segment.rounds:
            return _where(schedule, number, done)
    return _where(schedule, schedule.next_epoch, 0)


def _where(schedule: RunSchedule, number: int, step: int) -> Where:
    epoch = schedule.epochs.get(number)
    segment = epoch.segment if epoch else schedule.plan.whole
    return Where(epoch=number, step=step, rounds=segment.rounds, position=segment.position)


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
    _save(session, run, now)
    way = _Way(session, run, row, to, _known(session, schedule, row, to.epoch))
    first = way.known.get(to.epoch)
    if first is None:
        _begin(way, now)
    elif to.world_size == first.segment.world_size and to.position >= first.segment.position:
        _go_back(way, first, now)
    else:
        _cut_anew(way, first, now)
    # What it has consumed since its last word is consumed: the state says so.
    for number, epoch in schedule.epochs.items():
        if number < to.epoch:
            schedule.consume(to.rank, number, epoch.segment.rounds)
    ledger.unseal_from(session, run_id, to.epoch)
    run.sessions[to.rank] = to.session
    step = 0
    if (epoch_now := schedule.epochs.get(to.epoch)) is not None:
        step = (to.position - epoch_now.segment.position) // epoch_now.segment.world_size
        schedule.consume(to.rank, to.epoch, step)
    return _where(schedule, to.epoch, step)


def _save(session: Session, run: ActiveRun, now: float) -> None:
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
        known[number] = EpochSchedule.fresh(number, schedule.plan.whole)
    return dict(sorted(known.items()))


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
    if way.other_ranks or any(
        len(epoch.segments) > 1 or epoch.segment.world_size != to.world_size for epoch in later
    ):
        _change_ranks(way, now)
        schedule.resume(first)
    schedule.epochs |= {n: e for n, e in way.known.items() if n < schedule.next_epoch}
    schedule.epochs = dict(sorted(schedule.epochs.items()))
    for number, epoch in schedule.epochs.items():
        if number >= to.epoch:
            _go_back_in(way, epoch, step if number == to.epoch else 0)


def _go_back_in(way: _Way, epoch: EpochSchedule, step: int) -> None:
    rank, schedule = way.to.rank, way.schedule
    dealt = ledger.dealt_from(way.session, way.run.id, epoch.number, epoch.place(rank, step))
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
    segments = [cut for cut in epoch.segments if cut.position <= to.position]
    segment = segments[-1]
    heads = ledger.heads_before(way.session, run_id, to.epoch, segment, to.position)
    dealt = len(ledger.dealt_from(way.session, run_id, to.epoch, segment.position))
    if to.position - segment.position > dealt:
        raise Conflict(
            f"place {to.position} of epoch {to.epoch} cannot be gone to: "
            f"{segment.position + dealt} batches of it were delivered"
        )
    _change_ranks(way, now)
    ledger.forget_from(way.session, run_id, to.epoch, to.position)
    if to.position == 0:
        _void(schedule, epoch)
        schedule.resume(EpochSchedule.fresh(to.epoch, schedule.plan.whole))
        return
    epoch.segments = segments
    tails = to.position - segment.position - heads
    schedule.cut_anew(epoch, heads, tails, to.world_size)
    ledger.recount(way.session, run_id, epoch)


def _change_ranks(way: _Way, now: float) -> None:
    """Other ranks go on in an epoch: those before it are over, those after it never were."""
    run, schedule, to = way.run, way.schedule, way.to
    plan = replace(schedule.plan, world_size=to.world_size)
    if not plan.batches:
        raise InvalidInput(
            f"{plan.samples} samples do not fill one batch of {plan.batch_size} for each of "
            f"{to.world_size} ranks; go on with fewer"
        )
    for number, epoch in schedule.epochs.items():
        if number < to.epoch:
            _close(schedule, epoch)
    _save(way.session, run, now)
    for number, epoch in schedule.epochs.items():
        if number > to.epoch:
            _void(schedule, epoch)
    ledger.forget_after(way.session, run.id, to.epoch)
    schedule.epochs, schedule.next_epoch = {}, to.epoch
    schedule.plan = plan
    schedule.rank_epoch = [to.epoch] * to.world_size
    run.sessions, run.trainers = {}, {}
    way.row.world_size = to.world_size


def _close(schedule: RunSchedule, epoch: EpochSchedule) -> None:
    """All ranks have left an epoch."""
    for rank in range(epoch.segment.world_size):
        schedule.consume(rank, epoch.number, epoch.segment.rounds)
    if epoch.state is EpochState.OPEN:
        epoch.state, epoch.changed = EpochState.ABANDONED, True
        _void(schedule, epoch)


def _void(schedule: RunSchedule, epoch: EpochSchedule) -> None:
    """Nothing that is under way in an epoch is wanted any more."""
    for batch in epoch.under_way:
        schedule.note_void(batch, batch.device, batch.token)


def acknowledge(board: Board, run: ActiveRun, request: FeedRequest, now: float) -> None:
    """Take note of what a rank has consumed, and of how it spent its time."""
    run.schedule.check_rank(request.rank)
    if run.sessions.setdefault(request.rank, request.session) != request.session:
        raise Conflict(f"another process joined run {run.name} as rank {request.rank}")
    run.trainers[request.rank] = now
    consumed = run.schedule.consume(request.rank, request.epoch, request.consumed)
    bucket = Bucket(
        batches=len(consumed),
        images=sum(batch.samples for batch in consumed),
        nbytes=sum(batch.nbytes for batch in consumed),
    )
    run.telemetry.add(now, TRAINER, bucket, request.epoch)
    account = request.account
    if account is not None and run.is_news(request.rank, request.session, account.number):
        _take_account(board, run, request, account, now)


def _take_account(
    board: Board, run: ActiveRun, request: FeedRequest, account: TrainerAccount, now: float
) -> None:
    """Count how a rank spent its time."""
    bucket = spent(account.spent_s)
    bucket.read_s, bucket.transfer_s = account.read_s, account.transfer_s
    run.telemetry.add(now, TRAINER, bucket, request.epoch)
    for read in account.reads:
        run.telemetry.count_read(read.path.value, read.reason, read.batches, read.bytes)
    board.energy.host_trained(
        run.hosts.get(request.rank, ""),
        (run.id, request.epoch),
        account.spent_s.get(Spending.TRAINING, 0.0),
    )
    if board.settings.telemetry:
        run.timeline.add_steps(request.rank, request.session, account, now)


def blame(run: ActiveRun, epoch: int) -> dict[Spending, float]:
    """What a rank that got nothing waits for, as shares of its time."""
    paused = run.state is RunState.PAUSED
    return run.work.blame({} if paused else blamed(run.schedule, epoch))


def damaged(run: ActiveRun, report: Damaged) -> None:
    """A rank cannot read a batch that it was given: it is made again for the same step."""
    if run.sessions.get(report.rank, report.session) != report.session:
        raise Conflict(f"another process joined run {run.name} as rank {report.rank}")
    batch = run.schedule.find(report.epoch, report.index)
    device = None if batch is None else batch.device
    key = report.epoch, report.index, report.token
    run.schedule.damaged(*key, report.reason, report.gone)
    with about(run=run.name, epoch=report.epoch, batch=report.index, device=device):
        level = logging.INFO if report.gone else logging.WARNING
        log.log(level, "a batch cannot be read and is made again: %s", report.reason)


def fetch(board: Board, run: ActiveRun, request: FeedRequest, now: float) -> Fed:
    """What is ready for a rank now."""
    schedule = run.schedule
    batches: list[Batch] = []
    if request.want:
        batches = schedule.fetch(request.rank, request.epoch, request.received, request.want)
    received = request.received + len(batches)
    done = schedule.rank_done(request.rank, request.epoch, received)
    waiting = None
    if not batches and not done:
        last_seen = {name: device.last_seen_at for name, device in board.devices.items()}
        waiting = explain_wait(schedule, request.epoch, now, last_seen)
    return Fed(
        batches=[
            _reachable(board, run, FedBatch.of(batch, request.received + place), request.epoch)
            for place, batch in enumerate(batches)
        ],
        done=done,
        state=run.state,
        reason=run.reason,
        waiting_for=waiting,
    )


def _reachable(board: Board, run: ActiveRun, fed: FedBatch, epoch: int) -> FedBatch:
    """A batch with the ways to it: where its device runs, and where that serves it."""
    device = board.devices.get(fed.device)
    if device is None:
        return fed
    found: dict[str, str] = {"host": device.host}
    if device.serves and device.store_key:
        name = batch_name(run.id, epoch, fed.index, fed.token)
        found["served"] = f"{device.serves}/{name}"
        found["access"] = access_token(device.store_key, name)
    return fed.model_copy(update=found)
