"""A run inside the training process: the scheduling core with worker processes beside it.

It drives the same schedule as the server does, without database, broker or network.
"""

import shutil
import tempfile
import threading
import time
import uuid
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddlp.core.batchfile import batch_tensors, layout
from ddlp.core.dataset import DatasetIndex, ScanOptions, scan
from ddlp.core.errors import BadSample, Conflict, InvalidInput, Refused
from ddlp.core.local_worker import Hello, Report
from ddlp.core.messages import (
    Attached,
    BadSampleInfo,
    Damaged,
    Fed,
    FedBatch,
    FeedRequest,
    Lease,
    WorkSpec,
)
from ddlp.core.mishap import Mishap
from ddlp.core.owned_folder import make_owned_folder, shared_memory
from ddlp.core.pipeline import Pipeline
from ddlp.core.plan import RunPlan
from ddlp.core.produce import forget
from ddlp.core.ranges import Ranges
from ddlp.core.schedule import (
    Batch,
    EpochSchedule,
    Limits,
    Made,
    RunSchedule,
    explain_wait,
    strategy,
)
from ddlp.core.settings import Settings, load_settings
from ddlp.core.store import BatchStore, store_limit
from ddlp.core.types import BadPolicy, Prong, RunState
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

    def __post_init__(self) -> None:
        strategy(self.strategy)
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

    def __init__(self, run: LocalRun) -> None:
        settings = load_settings()
        self._memory = make_owned_folder(settings.cpu_store or shared_memory())
        self._drive = make_owned_folder(settings.csd_store or Path(tempfile.gettempdir()))
        try:
            index = _scan(run, self._drive / "index")
        except BaseException:
            _clear({}, [self._memory, self._drive])
            raise
        plan = RunPlan(index.samples, run.batch_size, run.epochs, run.seed)
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
            epoch=0,
            step=0,
        )
        self._clock = time.monotonic
        self._schedule = RunSchedule(plan, strategy(run.strategy), self._limits(run, settings))
        self._changed = threading.Condition()
        self._closed = False
        self._mishaps: dict[tuple[int, int], tuple[Mishap, ...]] = {}
        self._workers: dict[str, WorkerProcess] = {}
        for number in range(run.workers):
            self._start(Prong.CPU, f"cpu-{number}", self._memory, 1.0)
        if run.csd_speed is not None:
            self._start(Prong.CSD, "emulated-csd-0", self._drive, run.csd_speed)
        self._end = weakref.finalize(self, _clear, self._workers, [self._memory, self._drive])

    def _limits(self, run: LocalRun, settings: Settings) -> Limits:
        _, nbytes = layout(batch_tensors(run.batch_size, run.pipeline.shape, run.pipeline.dtype))
        cpu = store_limit(nbytes, settings.cpu_store_bytes, self._memory)
        csd = store_limit(nbytes, settings.csd_store_bytes, self._drive)
        return Limits(
            stored={Prong.CPU: min(cpu, settings.cpu_window), Prong.CSD: csd},
            sample_s=run.pipeline.decode.max_seconds,
            bad_share=run.max_bad_share,
        )

    def exchange(self, request: FeedRequest) -> Fed:
        """Take acknowledgements; wait for a batch up to the time given."""
        deadline = time.monotonic() + request.wait_s
        with self._changed:
            self._schedule.consume(request.rank, request.epoch, request.consumed, self._clock())
            while True:
                self._advance()
                fed = self._fed(request)
                left_s = deadline - time.monotonic()
                if fed.batches or fed.done or left_s <= 0 or fed.state is not RunState.RUNNING:
                    return fed
                self._changed.wait(min(left_s, _GLANCE_S))

    def damaged(self, report: Damaged) -> None:
        """Have a batch made again."""
        with self._changed:
            key = report.epoch, report.index, report.token
            self._schedule.damaged(*key, report.reason, report.gone)
            self._advance()

    def split(self, epoch: int) -> int | None:
        """Where the CPU's share of an epoch ends, once that is fixed."""
        with self._changed:
            schedule = self._schedule.epochs.get(epoch)
            return schedule.split if schedule else None

    def bad_samples(self) -> list[BadSampleInfo]:
        """What the workers reported, by epoch and batch."""
        with self._changed:
            known = sorted(self._mishaps.items())
        flat = [(epoch, index, mishap) for (epoch, index), bad in known for mishap in bad]
        return [
            BadSampleInfo(id=place, epoch=epoch, batch=index, action=mishap.action, **vars(mishap))
            for place, (epoch, index, mishap) in enumerate(flat)
        ]

    def resume(self, rank: int, state: LoaderState) -> None:
        """Take the epoch up where it was left; only before the first batch."""
        with self._changed:
            if self._schedule.next_token > 1:
                raise Conflict("load the state before the first pass over the loader")
            done = Ranges((start, stop) for start, stop in state.delivered)
            plan = self._schedule.plan
            epoch = EpochSchedule.resumed(state.epoch, plan.batches, done, state.split)
            self._schedule.resume(epoch)

    def close(self) -> None:
        """End the workers and remove what they wrote."""
        with self._changed:
            self._closed = True
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
            batches=[FedBatch.of(batch) for batch in batches],
            done=done,
            state=RunState.FAILED if schedule.doom else RunState.RUNNING,
            reason=schedule.doom,
            waiting_for=None
            if batches
            else explain_wait(schedule, 0, request.epoch, self._clock()),
        )

    def _start(self, prong: Prong, name: str, store: Path, speed: float) -> None:
        hello = Hello(spec=self._spec, store=store, device=name, speed=speed)
        self._workers[name] = WorkerProcess(
            hello, prong, _weakly(self._on_report), _weakly(self._on_exit)
        )
        self._schedule.set_slots(Counter(worker.prong for worker in self._workers.values()))

    def _advance(self) -> None:
        """Give the workers what there is to do, and take note of what changed."""
        if self._closed:
            return
        if self._schedule.doom is None:
            self._give_out(self._clock())
        changes = self._schedule.changes()
        self._mishaps |= changes.mishaps
        for attempt in changes.void:
            BatchStore(self._workers[attempt.device].hello.store).discard(
                self._spec.run, attempt.epoch, attempt.index, attempt.token
            )

    def _give_out(self, now: float) -> None:
        """Take back what is late, and lease what the windows have room for."""
        for late in self._schedule.expire(now):
            self._workers[late.device or ""].kill()
        for batch in self._schedule.top_up(now):
            mine = [w for w in self._workers.values() if w.prong is batch.prong]
            worker = min(mine, key=lambda w: w.outstanding)
            self._schedule.claim(batch.epoch, batch.index, batch.token, worker.name, now)
            worker.send(Lease.of(self._spec.run, batch))

    def _on_report(self, report: Report) -> None:
        with self._changed:
            lease = report.lease
            made = Made(
                location=report.location,
                nbytes=report.nbytes,
                checksum=report.checksum,
                seconds=report.seconds,
                cpu_s=report.cpu_s,
                bad=report.bad,
            )
            batch = self._schedule.find(lease.epoch, lease.index)
            if batch is not None and batch.device in self._workers:
                self._workers[batch.device].outstanding -= 1
            key = lease.epoch, lease.index, lease.token
            try:
                if report.problem is None:
                    self._schedule.commit(*key, made, self._clock())
                elif report.no_room:
                    self._schedule.no_room(*key, report.problem)
                else:
                    self._schedule.fail(*key, report.problem, report.permanent)
            except Refused:
                forget(made)
            except InvalidInput as error:
                self._schedule.fail(*key, str(error), permanent=True)
            self._advance()
            self._changed.notify_all()

    def _on_exit(self, worker: WorkerProcess) -> None:
        with self._changed:
            if self._closed:
                return
            worker.close()
            self._schedule.device_gone(worker.name, worker.prong)
            if not self._schedule.doom:
                hello = worker.hello
                self._start(worker.prong, worker.name, hello.store, hello.speed)
                self._advance()
            self._changed.notify_all()


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


def _weakly(method: Callable[[Any], None]) -> Callable[[Any], None]:
    """A callback that does not keep its owner alive."""
    reference = weakref.WeakMethod(method)

    def call(argument: Any) -> None:
        alive = reference()
        if alive is not None:
            alive(argument)

    return call


def _clear(workers: dict[str, WorkerProcess], folders: list[Path]) -> None:
    for worker in workers.values():
        worker.close()
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
