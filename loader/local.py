"""A run inside the training process: the scheduling core with worker processes beside it.

It drives the same schedule as the server does, without database, broker or network.
"""

import os
import shutil
import tempfile
import threading
import time
import uuid
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddlp.core.batchfile import layout
from ddlp.core.dataset import DatasetIndex, ScanOptions, scan
from ddlp.core.errors import BadSample, InvalidInput, NoRoom, Refused
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
from ddlp.core.owned_folder import make_owned_folder, shared_memory
from ddlp.core.pipeline import Pipeline
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import (
    Batch,
    EpochSchedule,
    Holder,
    Limits,
    Made,
    RunSchedule,
    blamed,
    explain_wait,
    strategy,
)
from ddlp.core.settings import Settings, load_settings
from ddlp.core.stages import RecentWork
from ddlp.core.store import FolderStore, StoreAddress, path_of, store_limit
from ddlp.core.store.room import check_room, usable_bytes
from ddlp.core.types import BadPolicy, EpochState, Prong, RunState, Spending, TailPolicy
from ddlp.loader.feed import LoaderState
from ddlp.loader.worker_process import WorkerProcess

_GLANCE_S = 0.5


@dataclass(frozen=True)
class LocalRun:
    """Everything that decides a run in the training process."""

    data: Path
    pipeline: Pipeline
    batch_size: int
    epochs: int
    seed: int
    strategy: str
    workers: int
    csd_speed: float | None = None
    on_bad: BadPolicy = BadPolicy.FAIL
    max_bad_share: float = 0.01
    tail: TailPolicy = TailPolicy.SHORT
    reorder_window: int | None = None

    def __post_init__(self) -> None:
        strategy(self.strategy, self.reorder_window)
        for name in ("batch_size", "epochs", "workers"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name}={getattr(self, name)} is too small; use 1 or more")
        if self.csd_speed is not None and not 0 < self.csd_speed <= 1:
            raise InvalidInput(f"csd_speed={self.csd_speed} is not above 0 and at most 1")
        if not 0 <= self.max_bad_share <= 1:
            raise InvalidInput(f"max_bad_share={self.max_bad_share} is not from 0 to 1")
        if self.csd_speed is None and self.strategy == "csd":
            raise InvalidInput("strategy 'csd' needs a CSD; give csd_speed to emulate one")


class LocalFeed:
    """Schedules a run and serves its one rank."""

    run_id: str | None = None

    def __init__(self, run: LocalRun) -> None:
        settings = load_settings()
        self._memory = make_owned_folder(_folder(settings.cpu_store, shared_memory()))
        self._drive = make_owned_folder(_folder(settings.csd_store, Path(tempfile.gettempdir())))
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._workers: dict[str, WorkerProcess] = {}
        owned = [self._memory, self._drive]
        self._end = weakref.finalize(
            self, _clear, os.getpid(), self._changed, self._closed, self._workers, owned
        )
        try:
            self._begin(run, settings)
        except BaseException:
            self._end()
            raise

    def _begin(self, run: LocalRun, settings: Settings) -> None:
        index = _scan(run, self._drive / "index")
        plan = RunPlan(index.samples, run.batch_size, run.epochs, run.seed, 1, run.tail)
        self._spec = WorkSpec(
            run=uuid.uuid4(),
            index_path=self._drive / "index",
            dataset_version=index.version,
            transforms=run.pipeline.spec.transforms,
            pipeline_hash=run.pipeline.hash,
            plan=plan,
            on_bad=run.on_bad,
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
            where=Where(epoch=0, step=0, rounds=plan.rank_batches, position=0),
        )
        self._clock = time.monotonic
        self._schedule = RunSchedule(
            plan, strategy(run.strategy, run.reorder_window), self._limits(run, settings)
        )
        self._mishaps: dict[tuple[int, int], tuple[Mishap, ...]] = {}
        self._work = RecentWork()
        for number in range(run.workers):
            self._start(Prong.CPU, f"cpu-{number}", self._memory, 1.0)
        if run.csd_speed is not None:
            self._start(Prong.CSD, "emulated-csd-0", self._drive, run.csd_speed)

    def _limits(self, run: LocalRun, settings: Settings) -> Limits:
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
            sample_s=run.pipeline.decode.max_seconds,
            on_bad=run.on_bad,
            bad_share=run.max_bad_share,
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
            self._schedule.damaged(*key, report.reason, report.gone)
            self._advance()

    def settled(self, epoch: int) -> dict[str, float] | None:
        """What the strategy has fixed for an epoch: no server keeps it."""
        with self._changed:
            schedule = self._schedule.epochs.get(epoch)
            return dict(schedule.settled) if schedule else {}

    def bad_samples(self) -> list[BadSampleInfo]:
        """What the workers reported, by epoch and batch."""
        with self._changed:
            known = sorted(self._mishaps.items())
        flat = [(epoch, index, mishap) for (epoch, index), bad in known for mishap in bad]
        return [
            BadSampleInfo(id=place, epoch=epoch, batch=index, action=mishap.action, **vars(mishap))
            for place, (epoch, index, mishap) in enumerate(flat)
        ]

    def resume(self, state: LoaderState) -> Where:
        """Take the epoch up where it was left; what was made of others is of no use any more."""
        with self._changed:
            if state.heads is None:
                raise InvalidInput("the state is of several ranks; load it into a run on a server")
            whole = self._schedule.plan.whole
            tails = state.position - state.heads
            epoch = EpochSchedule.resumed(state.epoch, whole, state.heads, tails)
            epoch.settled = dict(state.settled or {})
            for left in self._schedule.epochs.values():
                for batch in left.under_way:
                    self._schedule.note_void(batch, batch.device, batch.token)
            self._schedule.resume(epoch)
            return Where(epoch=state.epoch, step=state.position, rounds=whole.rounds, position=0)

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
                FedBatch.of(batch, request.received + place) for place, batch in enumerate(batches)
            ],
            done=done,
            state=RunState.FAILED if schedule.doom else RunState.RUNNING,
            reason=schedule.doom,
            waiting_for=None if batches else explain_wait(schedule, request.epoch, self._clock()),
        )

    def _start(self, prong: Prong, name: str, store: Path, speed: float) -> None:
        hello = Hello(spec=self._spec, store=store, device=name, speed=speed)
        self._workers[name] = WorkerProcess(
            hello, prong, _weakly(self._on_report), _weakly(self._on_exit)
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
        store.discard(self._spec.run, epoch, index, token)

    def _give_out(self, now: float) -> None:
        """Take back what is late, and lease what the windows have room for."""
        for late in self._late(now):
            late.kill()
        self._schedule.expire(now)
        for grant in self._schedule.top_up(now):
            mine = [w for w in self._workers.values() if w.prong is grant.prong and not w.killed]
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
                    self._schedule.fail(*key, report.problem, report.permanent)
            except Refused:
                self._discard(worker.name, *key)
            except InvalidInput as error:
                self._schedule.fail(*key, str(error), permanent=True)
            self._advance()
            self._changed.notify_all()

    def _on_exit(self, worker: WorkerProcess) -> None:
        with self._changed:
            if self._closed.is_set():
                return
            worker.close()
            self._schedule.device_gone(worker.name, worker.prong)
            if not self._schedule.doom:
                hello = worker.hello
                self._start(worker.prong, worker.name, hello.store, hello.speed)
                self._advance()
            self._changed.notify_all()


def _folder(store: str | None, usual: Path) -> Path:
    """The folder that the settings name; what is made here lies on this machine."""
    if store is None:
        return usual
    folder = StoreAddress.given(store).folder
    if folder is None:
        raise InvalidInput(f"{store} is no folder; a run without a server keeps its batches in one")
    return folder


def _scan(run: LocalRun, into: Path) -> DatasetIndex:
    """The index of a run's data, made in this process."""
    scan(run.data.resolve(), into, ScanOptions(), lambda _: None, lambda: False)
    index = DatasetIndex(into)
    if index.rejected:
        _tell_rejected(run, index)
    if run.batch_size > index.samples:
        raise InvalidInput(
            f"batch_size={run.batch_size} is more than the dataset's {index.samples} samples"
        )
    return index


def _tell_rejected(run: LocalRun, index: DatasetIndex) -> None:
    """Files that the scan left out: an error or a warning, as the policy for bad samples has it."""
    first = index.list_rejected(0, 1)[0]
    found = f"{index.rejected} of the files in {run.data} cannot be used; the first: {first.name}"
    if run.on_bad is BadPolicy.FAIL:
        raise BadSample(
            f"{found}: {first.reason}; correct or remove them, or leave them out with on_bad='skip'"
        )
    warnings.warn(f"{found}: {first.reason}", stacklevel=2)


def _weakly(method: Callable[..., None]) -> Callable[..., None]:
    """A callback that does not keep its owner alive."""
    reference = weakref.WeakMethod(method)

    def call(*arguments: Any) -> None:
        alive = reference()
        if alive is not None:
            alive(*arguments)

    return call


def _clear(
    owner: int,
    changed: threading.Condition,
    closed: threading.Event,
    workers: dict[str, WorkerProcess],
    folders: list[Path],
) -> None:
    """End the workers for good, then remove what they wrote; a forked child has no part in it."""
    if os.getpid() != owner:
        return
    with changed:
        closed.set()
    for worker in workers.values():
        worker.close()
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
