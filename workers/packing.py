"""What a worker process does with a message about packing: claim its shard, write it, report.

A shard takes long, so the process gives signs of life meanwhile; one that hangs in a sample is
ended by the kernel, and the shard is given to someone else.
"""

import logging
import mmap
import os
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ddlp.core.client import Client
from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import (
    BadSample,
    Conflict,
    DdlpError,
    InvalidInput,
    NoRoom,
    NotFound,
    SystemFault,
    Unavailable,
)
from ddlp.core.messages import (
    PACK_MARK,
    PackSpec,
    PackTask,
    ShardClaim,
    ShardGranted,
    ShardNews,
    ShardReport,
    ShardWanted,
)
from ddlp.core.patience import Patience
from ddlp.core.records import PackOptions, PackProgress, pack_shard, plan_shards
from ddlp.workers.device import WorkerDevice
from ddlp.workers.indexes import Indexes
from ddlp.workers.tasks import ended_after, is_dead

_KEPT = 4
_GRACE_S = 10.0
_NEWS_EVERY_S = 2.0
_NAP_S = 1.0
"""How long an emulated device sleeps between two signs of life."""
_REPORT_PATIENCE_S = 60.0

log = logging.getLogger(__name__)


class Ending:
    """Whether a worker is to end, seen by all its processes: made before they are forked."""

    def __init__(self) -> None:
        self._cell = mmap.mmap(-1, 1)

    def begin(self) -> None:
        """Leave what takes long to others."""
        self._cell[0] = 1

    def begun(self) -> bool:
        """Whether it has begun."""
        return bool(self._cell[0])


@dataclass(frozen=True)
class _Job:
    """A packing as this host sees it."""

    spec: PackSpec
    index: DatasetIndex
    into: Path

    @property
    def options(self) -> PackOptions:
        return PackOptions(**self.spec.options.model_dump())


class PackBench:
    """One worker process's place for packing."""

    def __init__(self, device: WorkerDevice, url: str, ending: Ending) -> None:
        self._device = device
        self._ending = ending
        self._client = Client(url)
        self._news = Client(url, timeout_s=5, patience_s=0)
        self._reports = Client(url, patience_s=_REPORT_PATIENCE_S)
        self._indexes = Indexes(self._client, device.cache, device.dataset_map)
        self._jobs: dict[uuid.UUID, _Job] = {}
        self._patience = Patience()

    def handle(self, body: Any) -> None:
        """Write one shard. The message may be late, doubled or nonsense: then nothing happens."""
        try:
            task = PackTask.model_validate(body)
        except ValidationError as error:
            log.warning("a message that names no shard was dropped: %s", error)
            return
        try:
            report = self._work(task)
            self._reports.post(f"/packings/{task.packing}/report", report)
        except (Conflict, NotFound, Unavailable) as error:
            log.warning("gave up on shard %d: %s", task.shard, error)
            self._jobs.pop(task.packing, None)

    def _work(self, task: PackTask) -> ShardReport:
        try:
            job = self._job(task.packing)
        except (InvalidInput, SystemFault) as error:
            return self._failure(task, str(error))
        token, silence_s = self._claim(task)
        pulse = _Pulse(
            self._device, self._news, task, token, silence_s + _GRACE_S, self._ending.begun
        )
        try:
            with ended_after(silence_s + _GRACE_S):
                return self._pack(job, task, pulse)
        except (BadSample, NoRoom) as error:
            return self._failure(task, str(error), token, permanent=True)
        except DdlpError as error:
            if pulse.stopped():
                raise Conflict("it is not wanted any more, or this worker ends") from error
            return self._failure(task, str(error), token)
        except Exception as error:  # the border of the task: whoever asked must learn of it
            log.exception("shard %d failed", task.shard)
            return self._failure(task, f"{type(error).__name__}: {error}", token)

    def _claim(self, task: PackTask, dead: int | None = None) -> tuple[uuid.UUID, float]:
        """The token for a shard, and how long one may be silent about it."""
        claim = ShardClaim(
            device=self._device.name, shard=task.shard, process=os.getpid(), dead=dead
        )
        answer = self._client.post(f"/packings/{task.packing}/claim", claim)
        granted = ShardGranted.model_validate(answer)
        if granted.token is not None:
            return granted.token, granted.silence_s
        # The message came twice; or its process died, and the server has not heard of that.
        if granted.holder is not None and granted.holder != dead and is_dead(granted.holder):
            return self._claim(task, granted.holder)
        raise Conflict(f"process {granted.holder} is at it")

    def _pack(self, job: _Job, task: PackTask, pulse: "_Pulse") -> ShardReport:
        began = time.monotonic()
        plan = plan_shards(job.index.samples, job.spec.per_shard)
        made = pack_shard(
            job.index,
            plan,
            task.shard,
            job.options,
            job.into,
            pulse.beat,
            pulse.stopped,
        )
        pulse.slow_down(made.samples)
        return ShardReport(
            device=self._device.name,
            shard=task.shard,
            token=pulse.token,
            samples=made.samples,
            records=made.records,
            skipped=made.skipped,
            bytes=made.bytes,
            seconds=time.monotonic() - began,
        )

    def _job(self, packing: uuid.UUID) -> _Job:
        # Asked each time: a packing that failed may have been begun again with another choice.
        spec = PackSpec.model_validate(self._client.get(f"/packings/{packing}"))
        if packing not in self._jobs or self._jobs[packing].spec != spec:
            route = f"/packings/{packing}/index"
            path = self._indexes.find(spec.index_path, spec.dataset_version, route)
            index = DatasetIndex(path)
            if index.version != spec.dataset_version:
                raise InvalidInput(
                    f"{path} has version {index.version[:12]}, not {spec.dataset_version[:12]}; "
                    "rescan the dataset"
                )
            self._jobs.pop(packing, None)
            while len(self._jobs) >= _KEPT:
                del self._jobs[next(iter(self._jobs))]
            self._jobs[packing] = _Job(spec, index, self._indexes.moved(spec.into))
        job = self._jobs[packing]
        self._check_folder(job)
        return job

    def _check_folder(self, job: _Job) -> None:
        mark = job.into / PACK_MARK
        try:
            seen = self._patience.call("read", mark, mark.read_text)
        except OSError:
            seen = ""
        if seen != str(job.spec.packing):
            raise InvalidInput(
                f"device {self._device.name} does not see the server's folder {job.spec.into} as "
                f"{job.into}; pack --into a folder that both see (DDLP_DATASET_MAP says where)"
            )

    def _failure(
        self,
        task: PackTask,
        reason: str,
        token: uuid.UUID | None = None,
        permanent: bool = False,
    ) -> ShardReport:
        return ShardReport(
            device=self._device.name,
            shard=task.shard,
            token=token,
            problem=reason[:2000],
            permanent=permanent,
        )


class _Pulse:
    """Says how far a shard is, and holds an emulated device to its speed."""

    def __init__(
        self,
        device: WorkerDevice,
        client: Client,
        task: PackTask,
        token: uuid.UUID,
        silence_s: float,
        ending: Callable[[], bool],
    ) -> None:
        self.token = token
        self._device = device
        self._client = client
        self._task = task
        self._silence_s = silence_s
        self._ending = ending
        self._began, self._began_cpu = time.monotonic(), time.process_time()
        self._said_at = self._began
        self._unwanted = False

    def stopped(self) -> bool:
        """Whether the server wants nothing of it any more, or this worker is to end."""
        return self._unwanted or self._ending()

    def beat(self, now: PackProgress) -> None:
        """Something was packed: this process does not hang."""
        self._live(now.samples)
        self.slow_down(now.samples)

    def slow_down(self, samples: int) -> None:
        """Below speed 1, sleep until it took as long as on a processor of that speed."""
        if self._device.speed >= 1:
            return
        due_s = (time.process_time() - self._began_cpu) / self._device.speed
        while not self.stopped() and (left_s := self._began + due_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _NAP_S))
            self._live(samples)

    def _live(self, samples: int) -> None:
        """Put off the end of this process, and tell the server now and then."""
        signal.setitimer(signal.ITIMER_REAL, self._silence_s)
        if time.monotonic() - self._said_at >= _NEWS_EVERY_S:
            self._said_at = time.monotonic()
            self._say(samples)

    def _say(self, samples: int) -> None:
        news = ShardNews(
            device=self._device.name,
            shard=self._task.shard,
            process=os.getpid(),
            token=self.token,
            samples=samples,
        )
        try:
            answer = self._client.post(f"/packings/{self._task.packing}/news", news)
            self._unwanted = not ShardWanted.model_validate(answer).wanted
        except Unavailable:
            pass  # the server is away; what is packed meanwhile is of use to the next one
        except (Conflict, NotFound) as error:
            log.info("shard %d: %s", self._task.shard, error)
