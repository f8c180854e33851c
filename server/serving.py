"""Serves training loops: takes what they consumed, and hands out their next batches."""

import logging
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict
from ddlp.core.logs import about
from ddlp.core.messages import Damaged, Fed, FedBatch, FeedRequest, TrainerAccount
from ddlp.core.schedule import Batch, Failed, blamed, explain_wait
from ddlp.core.store import batch_name
from ddlp.core.store.served import access_token
from ddlp.core.throughput import Received
from ddlp.core.types import RunState, Spending
from ddlp.server import sessions
from ddlp.server.board import ActiveRun, Board
from ddlp.server.telemetry import TRAINER, Bucket, spent

log = logging.getLogger(__name__)


@dataclass
class Hungry:
    """A rank that waits for batches."""

    run_id: uuid.UUID
    request: FeedRequest
    until: float
    answer: "Future[Fed]"
    looked_at: float
    shares: dict[Spending, float] = field(default_factory=dict)
    """What it waited for when it was looked at last."""
    blame_s: dict[Spending, float] = field(default_factory=dict)

    def check(self, run: ActiveRun) -> None:
        """Refuse it where its rank is held by another process since, or has gone elsewhere.

        Nobody reads the answer, but to serve it would lead the rank back to where it was.
        """
        held = run.sessions.get(self.request.rank)
        if held is None or held.id != self.request.session:
            raise Conflict(sessions.taken_words(run.name, self.request.rank))
        _check_turn(run, self.request)

    def look(self, now: float, shares: dict[Spending, float]) -> None:
        """Lay what has passed to what it waited for, and note what it waits for now."""
        for what, share in self.shares.items():
            self.blame_s[what] = self.blame_s.get(what, 0.0) + share * (now - self.looked_at)
        self.looked_at, self.shares = now, shares


def acknowledge(
    board: Board, session: Session, run: ActiveRun, request: FeedRequest, now: float
) -> None:
    """Take note of what a rank has consumed, and of how it spent its time."""
    run.schedule.check_rank(request.rank)
    sessions.heard_of(run, session, request.rank, request.session, now)
    if not run.sessions[request.rank].begun:
        raise Conflict(f"rank {request.rank} has not said how it goes on with run {run.name}")
    _check_turn(run, request)
    if request.checkpoint is not None:
        run.schedule.note_checkpoint(request.checkpoint)
    consumed = run.schedule.consume(request.rank, request.epoch, request.consumed)
    _count_received(run, consumed, request.epoch, now)
    run.delivery.asks(request.rank, request.want > 0)
    account = request.account
    if account is not None and run.is_news(request.rank, request.session, account.number):
        _take_account(board, run, request, account, now)


def _check_turn(run: ActiveRun, request: FeedRequest) -> None:
    """Refuse what a session asked before it went elsewhere: it may come late."""
    if run.sessions[request.rank].turn != request.turn:
        raise Conflict(f"rank {request.rank} of run {run.name} has gone elsewhere since")


def _count_received(run: ActiveRun, batches: list[Batch], epoch: int, now: float) -> None:
    """Count what a rank has consumed, by the prong that made it."""
    received = [Received(batch.samples, batch.ready_at) for batch in batches]
    for batch, measured in zip(batches, run.delivery.receive(now, received), strict=True):
        bucket = Bucket(
            batches=1,
            images=batch.samples,
            measured_images=measured.images,
            measured_s=measured.seconds,
            nbytes=batch.nbytes,
        )
        run.telemetry.add(now, TRAINER, bucket, epoch, batch.prong.value)


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
        run.sessions[request.rank].host,
        (run.id, request.epoch),
        account.spent_s.get(Spending.TRAINING, 0.0),
    )
    if board.settings.telemetry:
        run.timeline.add_steps(request.rank, request.session, account, now)


def blame(run: ActiveRun, epoch: int) -> dict[Spending, float]:
    """What a rank that got nothing waits for, as shares of its time."""
    paused = run.state is RunState.PAUSED
    return run.work.blame({} if paused else blamed(run.schedule, epoch))


def damaged(run: ActiveRun, report: Damaged, now: float) -> None:
    """A rank cannot read a batch that it was given: it is made again for the same step."""
    held = run.sessions.get(report.rank)
    if held is not None and held.id != report.session:
        raise Conflict(sessions.taken_words(run.name, report.rank))
    batch = run.schedule.find(report.epoch, report.index)
    device = None if batch is None else batch.device
    key = report.epoch, report.index, report.token
    run.schedule.damaged(*key, Failed(report.reason, gone=report.gone), now)
    level = logging.INFO if report.gone else logging.WARNING
    line = f"a batch cannot be read and is made again: {report.reason}"
    with about(run=run.name, epoch=report.epoch, batch=report.index, device=device):
        _log(level, run.made_again[level].add(now, line))


def tell_made_again(run: ActiveRun, now: float, over: bool = False) -> None:
    """Log how many batches have had to be made again since that was last said."""
    for level, burst in run.made_again.items():
        with about(run=run.name):
            _log(level, burst.due(now, over))


def _log(level: int, line: str | None) -> None:
    if line is not None:
        log.log(level, "%s", line)


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
            _reachable(
                board,
                run,
                FedBatch.of(batch, step, schedule.round_heads(request.epoch, step)),
                request.epoch,
            )
            for step, batch in enumerate(batches, request.received)
        ],
        done=done,
        state=run.state,
        reason=run.reason or schedule.expected_failure,
        waiting_for=waiting,
        settled=schedule.settled(request.epoch),
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
