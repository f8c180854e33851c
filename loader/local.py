"""A run on this machine: the scheduling core with worker processes beside it.

It drives the same schedule as the server does, without database, broker or network: inside the
training process, or for the ranks of one host in a process beside them (`local_host.py`).
"""

import logging
import os
import tempfile
import threading
import time
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ddlp.core.batchfile import layout
from ddlp.core.errors import Conflict, InvalidInput, NoRoom, Refused
from ddlp.core.janitor import Janitor
from ddlp.core.local_worker import Hello, Report
from ddlp.core.messages import (
    Attached,
    BadSampleInfo,
    Damaged,
    Fed,
    FedBatch,
    FeedRequest,
    Lease,
    Where,
    WorkSpec,
)
from ddlp.core.mishap import Mishap
from ddlp.core.owned_folder import shared_memory
from ddlp.core.plan import RunPlan, Segment
from ddlp.core.schedule import (
    Batch,
    Failed,
    Holder,
    Limits,
    Made,
    RunSchedule,
    blamed,
    explain_wait,
    strategy,
)
from ddlp.core.sessions import Start
from ddlp.core.settings import Settings, load_settings
from ddlp.core.stages import RecentWork
from ddlp.core.store import FolderStore, path_of, store_limit
from ddlp.core.store.room import check_room, usable_bytes
from ddlp.core.takeover import Origin
from ddlp.core.types import EpochState, Prong, RunState, Spending
from ddlp.loader.feed import Going
from ddlp.loader.local_run import LocalRun, scan_data
from ddlp.loader.owned import Owned, clear, store_folder
from ddlp.loader.worker_process import WorkerProcess

_GLANCE_S = 0.5

log = logging.getLogger(__name__)


class LocalFeed:
    """Schedules a run and serves its ranks."""

    source = "the run in this process"

    def __init__(self, run: LocalRun, world_size: int = 1, janitor: Janitor | None = None) -> None:
        settings = load_settings()
        memory = store_folder(settings.cpu_store, shared_memory())
        drive = store_folder(settings.csd_store, Path(tempfile.gettempdir()))
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._workers: dict[str, WorkerProcess] = {}
        self._janitor = janitor or Janitor()
        owned = Owned(os.getpid(), self._janitor, self._workers)
        self._end = weakref.finalize(self, clear, owned, self._changed, self._closed)
        try:
            self._memory, self._drive = owned.make_folder(memory), owned.make_folder(drive)
            self._begin(run, settings, world_size)
        except BaseException:
            self._end()
            raise

    def _begin(self, run: LocalRun, settings: Settings, world_size: int) -> None:
        index = scan_data(run, self._drive / "index")
        reshuffle = run.pipeline.draws if run.reshuffle is None else run.reshuffle
        plan = RunPlan(
            index.samples, run.batch_size, run.epochs, run.seed, world_size, run.tail, reshuffle
        )
        self._spec = WorkSpec(
            run=uuid.uuid4(),
            index_path=self._drive / "index",
            dataset_version=index.version,
            transforms=run.pipeline.spec.transforms,
            pipeline_hash=run.pipeline.hash,
            plan=plan,
            on_bad=run.on_bad,
            cure="start the loader again, which scans the folder anew",
        )
        self.attached = Attached(
            run=self._spec.run,
            session=uuid.uuid4(),
            dataset_version=index.version,
            name=run.data.name,
            plan=plan,
            transforms=self._spec.transforms,
            pipeline_hash=run.pipeline.hash,
            on_bad=run.on_bad,
            where=self._where(plan, 0, plan.whole),
        )
        self._clock = time.monotonic
        self._schedule = RunSchedule(
            plan,
            strategy(run.strategy, run.reorder_window),
            self._limits(run, settings, index.samples),
        )
        self._mishaps: dict[tuple[int, int], tuple[Mishap, ...]] = {}
        self._work = RecentWork()
        for number in range(run.workers):
            self._start(Prong.CPU, f"cpu-{number}", self._memory, 1.0)
        if run.csd_speed is not None:
            self._start(Prong.CSD, "emulated-csd-0", self._drive, run.csd_speed)

    def _limits(self, run: LocalRun, settings: Settings, samples: int) -> Limits:
        _, nbytes = layout(run.pipeline.batch_tensors(run.batch_size))
        free = {place: usable_bytes(place) for place in (self._memory, self._drive)}
        needed = {self._memory: run.workers} if run.strategy != "csd" else {self._drive: 1}
        for place, slots in needed.items():
            problem = check_room(str(place), slots, nbytes, free[place])
            if problem is not None:
                raise NoRoom(problem)
        cpu = store_limit(nbytes, settings.cpu_store_bytes, free[self._memory])
        csd = store_limit(nbytes, settings.csd_store_bytes, free[self._drive])
        return Limits(
            stored={Prong.CPU: min(cpu, settings.cpu_window), Prong.CSD: csd},
            message_leases=1,
            all_failing_s=settings.failing_timeout_s,
            sample_s=run.pipeline.decode.max_seconds,
            on_bad=run.on_bad,
            bad_share=run.bad_share(samples),
        )

    def exchange(self, request: FeedRequest) -> Fed:
        """Take acknowledgements; wait for a batch up to the time given."""
        deadline = time.monotonic() + request.wait_s
        blame_s: dict[Spending, float] = defaultdict(float)
        with self._changed:
            self._schedule.consume(request.rank, request.epoch, request.consumed)
            while True:
                self._advance()
                fed = self._fed(request)
                asleep_at = time.monotonic()
                left_s = deadline - asleep_at
                if fed.batches or fed.done or left_s <= 0 or fed.state is not RunState.RUNNING:
                    return fed.model_copy(update={"blame_s": dict(blame_s)})
                awaited = self._work.blame(blamed(self._schedule, request.epoch))
                self._changed.wait(min(left_s, _GLANCE_S))
                for what, share in awaited.items():
                    blame_s[what] += share * (time.monotonic() - asleep_at)

    def damaged(self, report: Damaged) -> None:
        """Have a batch made again."""
        with self._changed:
            key = report.epoch, report.index, report.token
            failed = Failed(report.reason, gone=report.gone)
            self._schedule.damaged(*key, failed, self._clock())
            self._advance()

    def bad_samples(self) -> list[BadSampleInfo]:
        """What the workers reported, by epoch and batch."""
        with self._changed:
            known = sorted(self._mishaps.items())
        flat = [(epoch, index, mishap) for (epoch, index), bad in known for mishap in bad]
        return [
            BadSampleInfo(id=place, epoch=epoch, batch=index, action=mishap.action, **vars(mishap))
            for place, (epoch, index, mishap) in enumerate(flat)
        ]

    def heads(self, epoch: int, step: int) -> int | None:
        """How many batches of an epoch's segment came from the head before a step of all ranks."""
        return self.heads_of(0, epoch, step, 0)

    def heads_of(self, rank: int, epoch: int, step: int, wait_s: float) -> int | None:
        """The same as a rank asks it, which may be ahead of others: their batches are dealt too."""
        deadline = time.monotonic() + wait_s
        with self._changed:
            while True:
                schedule = self._schedule.epochs.get(epoch)
                if schedule is not None and schedule.dealt_to(rank) <= step:
                    received = schedule.dealt_to(rank)
                    self._schedule.fetch(rank, epoch, received, step - received + 1)
                found = self._schedule.round_heads(epoch, step)
                left_s = deadline - time.monotonic()
                if found is not None or left_s <= 0:
                    return found
                self._changed.wait(min(left_s, _GLANCE_S))

    def is_finished(self, rank: int) -> bool:
        """Whether a rank has consumed its last batch."""
        with self._changed:
            if self._schedule.plan.epochs is None:
                return False
            last = self._schedule.plan.epochs - 1
            epoch = self._schedule.epochs.get(last)
            if epoch is None:
                return self._schedule.next_epoch > last
            return epoch.acknowledged[rank] >= epoch.segment.rounds

    def waits_for_ranks(self, epoch: int) -> bool:
        """Whether nothing more of an epoch is delivered before other ranks have come further."""
        with self._changed:
            schedule = self._schedule.epochs.get(epoch)
            return schedule is None or self._schedule.is_ahead(schedule)

    def begin(self, going: Going) -> Where:
        """Go on with the first epoch, a later one, one from its beginning, or from a state."""
        where = self.where(going)
        origin = self._origin(going)
        if origin is not None:
            with self._changed:
                settled = (going.state.settled if going.state is not None else None) or {}
                self._schedule.take_over(origin, settled)
                self._changed.notify_all()
        return where

    def where(self, going: Going) -> Where:
        """The place that a loader goes to; refuses one that cannot be gone to."""
        origin = self._origin(going)
        if origin is None:
            epoch = going.epoch if going.start is Start.EPOCH else 0
            plan = self._plan_with(epoch)
            return self._where(plan, epoch, plan.whole)
        plan = self._plan_with(origin.epoch)
        origin.check(plan)
        if origin.complete:
            return self._where(plan, origin.epoch + 1, plan.whole)
        return self._where(plan, origin.epoch, origin.rest(plan))

    def _origin(self, going: Going) -> Origin | None:
        """The place that was passed before and is gone back to; None on the way onward."""
        if going.state is not None:
            if going.state.origin is None:
                raise InvalidInput(
                    "the state was taken before all was known that another run needs; load it into "
                    "the run that it was taken in, or take an earlier checkpoint"
                )
            return going.state.origin
        if going.start is not Start.EPOCH or going.ahead:
            return None
        return Origin(str(self._spec.run), going.epoch, 0, 0, (self.attached.plan.whole,))

    def _plan_with(self, epoch: int) -> RunPlan:
        """The run's plan; one epoch more than it has is given to it."""
        with self._changed:
            plan = self._schedule.plan
            if epoch == plan.epochs:
                plan = self._schedule.plan = replace(plan, epochs=epoch + 1)
        if not plan.has_epoch(epoch):
            raise Conflict(
                f"epoch {epoch} is beyond the {plan.epochs} that this loader has, and not the one "
                "after them; create it with more epochs, or without a number of them"
            )
        return plan

    def _where(self, plan: RunPlan, epoch: int, segment: Segment) -> Where:
        return Where(
            epoch=epoch,
            step=0,
            rounds=segment.rounds,
            position=segment.position,
            heads=0,
            segments=(segment,),
            epochs=plan.epochs,
        )

    def took_state(self, epoch: int, position: int) -> None:
        """Nobody keeps a record of it here."""

    def check(self, timeout_s: float) -> None:
        """No other process can hold the rank."""

    def renew(self) -> None:
        """There is no connection."""

    def close(self) -> None:
        """End the workers and remove what they wrote."""
        self._end()

    @property
    def worker_pids(self) -> list[int]:
        """The processes at work."""
        return [worker.pid for worker in self._workers.values()]

    def _fed(self, request: FeedRequest) -> Fed:
        schedule = self._schedule
        batches: list[Batch] = []
        if request.want:
            batches = schedule.fetch(request.rank, request.epoch, request.received, request.want)
        done = schedule.rank_done(request.rank, request.epoch, request.received + len(batches))
        return Fed(
            batches=[
                FedBatch.of(batch, step, schedule.round_heads(request.epoch, step))
                for step, batch in enumerate(batches, request.received)
            ],
            done=done,
            state=RunState.FAILED if schedule.doom else RunState.RUNNING,
            reason=schedule.doom or schedule.expected_failure,
            settled=schedule.settled(request.epoch),
            waiting_for=None if batches else explain_wait(schedule, request.epoch, self._clock()),
        )

    def _start(self, prong: Prong, name: str, store: Path, speed: float) -> None:
        hello = Hello(spec=self._spec, store=store, device=name, speed=speed)
        self._workers[name] = WorkerProcess(
            hello,
            prong,
            self._janitor.lifeline,
            _weakly(self._on_report),
            _weakly(self._on_exit),
        )
        self._schedule.set_devices({w.name: (w.prong, 1) for w in self._workers.values()})

    def _advance(self) -> None:
        """Give the workers what there is to do, and take note of what changed."""
        if self._closed.is_set():
            return
        if self._schedule.doom is None:
            self._give_out(self._clock())
        changes = self._schedule.changes()
        self._mishaps |= changes.mishaps
        for attempt in changes.void:
            self._discard(attempt.device, attempt.epoch, attempt.index, attempt.token)
        left = [epoch for epoch in changes.epochs if epoch.state is EpochState.ABANDONED]
        for batch in (batch for epoch in left for batch in epoch.under_way):
            if batch.location:  # not to be used again: the trainer may hold a tensor over it
                path_of(batch.location).unlink(missing_ok=True)

    def _discard(self, device: str, epoch: int, index: int, token: int) -> None:
        store = FolderStore(self._workers[device].hello.store)
        try:
            store.discard(self._spec.run, epoch, index, token)
        except OSError as error:  # it goes with the run
            log.warning("an attempt at batch %d cannot be cleared away: %s", index, error)

    def _give_out(self, now: float) -> None:
        """Take back what is late, and lease what the windows have room for."""
        for late in self._late(now):
            late.kill()
        self._schedule.expire(now)
        for grant in self._schedule.top_up(now):
            batch = self._schedule.find(grant.epoch, grant.index)
            mine = [
                w
                for w in self._workers.values()
                if w.prong is grant.prong
                and not w.killed
                and batch is not None
                and not self._schedule.rest_s(batch, w.name, now)
            ]
            if not mine:
                continue  # they are started anew, and what was meant for them is given out again
            worker = min(mine, key=lambda w: w.outstanding)
            holder = Holder(worker.name, worker.pid)
            self._schedule.claim(grant.epoch, grant.index, grant.token, holder, now)
            worker.send(Lease.of(self._spec.run, grant))

    def _late(self, now: float) -> list[WorkerProcess]:
        """The workers whose lease has run out."""
        epochs = self._schedule.epochs.values()
        under_way = [batch for epoch in epochs for batch in epoch.under_way.in_flight()]
        late = {batch.device for batch in under_way if batch.deadline <= now}
        rivals = [batch.rival for batch in under_way if batch.rival is not None]
        late |= {rival.device for rival in rivals if rival.deadline <= now}
        return [worker for name, worker in self._workers.items() if name in late]

    def _on_report(self, worker: WorkerProcess, report: Report) -> None:
        with self._changed:
            worker.outstanding -= 1
            lease = report.lease
            made = Made(
                device=report.device,
                location=report.location,
                nbytes=report.nbytes,
                checksum=report.checksum,
                seconds=report.seconds,
                cpu_s=report.cpu_s,
                bad=report.bad,
                times=report.times,
            )
            key = lease.epoch, lease.index, lease.token
            try:
                if report.problem is None:
                    self._schedule.commit(*key, made, self._clock())
                    self._work.add(worker.prong, made.times)
                elif report.no_room:
                    self._schedule.no_room(*key, report.problem, self._clock())
                else:
                    failed = Failed(report.problem, report.permanent, report.bug)
                    self._schedule.fail(*key, failed, self._clock())
            except Refused:
                self._discard(worker.name, *key)
            except InvalidInput as error:
                self._schedule.fail(*key, Failed(str(error)), self._clock())
            self._advance()
            self._changed.notify_all()

    def _on_exit(self, worker: WorkerProcess) -> None:
        with self._changed:
            if self._closed.is_set():
                return
            worker.close()
            self._schedule.device_gone(worker.name, worker.prong, death=worker.death)
            if not self._schedule.doom:
                hello = worker.hello
                self._start(worker.prong, worker.name, hello.store, hello.speed)
                self._advance()
            self._changed.notify_all()


def _weakly(method: Callable[..., None]) -> Callable[..., None]:
    """A callback that does not keep its owner alive."""
    reference = weakref.WeakMethod(method)

    def call(*arguments: Any) -> None:
        alive = reference()
        if alive is not None:
            alive(*arguments)

    return call
