"""What a worker process does with one message: claim its leases, make them one by one, report.

A process that is still at work well after its lease ran out is ended by the kernel, whatever it
hangs in: the batch has been given to someone else, and the pool starts another process.
"""

import logging
import os
import signal
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ddlp.core.client import Client
from ddlp.core.errors import (
    BadSample,
    Conflict,
    DdlpError,
    NoRoom,
    NotFound,
    Refused,
    SystemFault,
    Unavailable,
    is_bug,
)
from ddlp.core.logs import about
from ddlp.core.messages import Claim, Claimed, Failure, Granted, Lease, WorkSpec
from ddlp.core.process import is_alive
from ddlp.core.produce import Producer
from ddlp.core.schedule import Made
from ddlp.core.store import open_store
from ddlp.workers.deaths import Deaths
from ddlp.workers.device import WorkerDevice
from ddlp.workers.indexes import Indexes
from ddlp.workers.reporter import Reporter

_KEPT_RUNS = 4
_KEPT_TOKENS = 1024
_GRACE_S = 10.0
"""A batch that is only a little late is finished: it tells how long its device takes."""
_REPORT_PATIENCE_S = 60.0
_SETTLE_S = 5.0
_REST_S = 1.0
"""A process rests so long at the most after work that its device does not get now."""
_LEASES = TypeAdapter(list[Lease])

log = logging.getLogger(__name__)


class Bench:
    """One worker process's place of work: its connections and the runs it has at hand."""

    def __init__(self, device: WorkerDevice, url: str, deaths: Deaths | None = None) -> None:
        self._device = device
        self._deaths = deaths or Deaths()
        self._client = Client(url)
        self._indexes = Indexes(self._client, device.cache, device.dataset_map)
        self._store = open_store(device.store, device.options)
        reports = Client(url, patience_s=_REPORT_PATIENCE_S)
        self._reporter = Reporter(
            reports, device.name, self._forget, self._store.relax, device.telemetry
        )
        self._producers: dict[uuid.UUID, Producer] = {}
        self._done: deque[tuple[uuid.UUID, int]] = deque(maxlen=_KEPT_TOKENS)

    def handle(self, body: Any) -> None:
        """Work off one message. It may be late, doubled or nonsense: then nothing happens."""
        try:
            leases = _LEASES.validate_python(body)
        except ValidationError as error:
            log.warning("a message that holds no leases was dropped: %s", error)
            return
        leases = [lease for lease in leases if (lease.run, lease.token) not in self._done]
        if not leases:
            return
        try:
            granted = self._claim(leases)
        except (Conflict, NotFound, Unavailable) as error:
            log.warning("gave up on %d leases: %s", len(leases), error)
            return
        claimed_at = time.monotonic()
        for entry in granted:
            left_s = entry.lasts_s - (time.monotonic() - claimed_at)
            if left_s > 0:
                self._work(entry.lease, left_s + min(entry.lasts_s, _GRACE_S))
        self._reporter.flush()

    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until what was made so far is reported."""
        self._reporter.settle(timeout_s)

    def _claim(self, leases: list[Lease], dead: int | None = None) -> list[Granted]:
        claim = Claim(
            device=self._device.name,
            process=os.getpid(),
            leases=leases,
            dead=dead,
            death=None if dead is None else self._deaths.of(dead),
        )
        claimed = Claimed.model_validate(self._client.post("/leases/claim", claim))
        orphans: dict[int, list[Lease]] = {}
        for entry in claimed.denied:
            log.info("dropped: %s", entry.reason)
            if entry.process is not None and entry.process != dead and is_dead(entry.process):
                orphans.setdefault(entry.process, []).append(entry.lease)
        # Their message came here because their process died: the server has not heard of that.
        again = [self._claim(left, process) for process, left in orphans.items()]
        rests = [entry.rest_s for entry in claimed.denied if entry.rest_s is not None]
        if rests and not claimed.granted:
            time.sleep(min(_REST_S, *rests))  # the next message is for others to take
        return claimed.granted + [granted for group in again for granted in group]

    def _work(self, lease: Lease, seconds: float) -> None:
        if lease.losses:  # should it kill this process, nothing else is to be blamed
            self._reporter.settle(_SETTLE_S)
        with (
            about(
                run=str(lease.run),
                epoch=lease.epoch,
                batch=lease.index,
                device=self._device.name,
            ),
            ended_after(seconds),
        ):
            made = self._make(lease)
        self._done.append((lease.run, lease.token))
        if made is not None:
            self._reporter.made(lease, made)
        if lease.losses:
            self._reporter.settle(_SETTLE_S)

    def _make(self, lease: Lease) -> Made | None:
        try:
            producer = self._producer(lease.run)
            return producer.make(lease, self._device.speed, self._device.link_bytes_per_s)
        except BadSample as error:
            self._fail(lease, str(error), permanent=True)
        except NoRoom as error:
            self._fail(lease, str(error), no_room=True)
        except SystemFault as error:  # of this host: another one may have none
            self._fail(lease, str(error))
        except (Refused, NotFound, Unavailable) as error:
            log.warning("gave up on batch %d: %s", lease.index, error)
        except DdlpError as error:
            self._fail(lease, str(error))
        except Exception as error:  # the border of the task: the run must learn of it
            log.exception("batch %d failed", lease.index)
            self._fail(lease, f"{type(error).__name__}: {error}", bug=is_bug(error))
        return None

    def _producer(self, run: uuid.UUID) -> Producer:
        if run not in self._producers:
            spec = WorkSpec.model_validate(self._client.get(f"/runs/{run}/work"))
            spec = self._indexes.local(spec)
            while len(self._producers) >= _KEPT_RUNS:
                del self._producers[next(iter(self._producers))]
            self._producers[run] = Producer(spec, self._store, self._device.name)
        return self._producers[run]

    def _forget(self, lease: Lease) -> None:
        """What was made for nothing; what cannot be removed now goes with its run."""
        try:
            self._store.discard(lease.run, lease.epoch, lease.index, lease.token)
        except (DdlpError, OSError) as error:  # its caller must go on reporting
            log.warning("an attempt at batch %d cannot be cleared away: %s", lease.index, error)

    def _fail(self, lease: Lease, reason: str, **kind: bool) -> None:
        self._reporter.failed(Failure(lease=lease, reason=reason[:2000], **kind))


def is_dead(process: int) -> bool:
    """Whether a process of this host has ended, waited for or not."""
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return not is_alive(process)


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """End this process if it is still in here after so many seconds."""
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
