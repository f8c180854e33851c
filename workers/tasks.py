"""What a worker process does with one message: claim, make, commit.

A commit is on its way while the next batch is made. Should the process die meanwhile, its batch is
as lost as if it had died a moment earlier.

A process that is still at work well after its lease ran out is ended by the kernel, whatever it
hangs in: the batch has been given to someone else, and the pool starts another process.
"""

import logging
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from ddlp.core.client import Client
from ddlp.core.errors import (
    BadSample,
    Conflict,
    DdlpError,
    InvalidInput,
    NoRoom,
    NotFound,
    Unavailable,
)
from ddlp.core.messages import Claim, Claimed, Commit, Failure, Lease, WorkSpec
from ddlp.core.produce import Producer, forget
from ddlp.core.schedule import Made
from ddlp.core.store import BatchStore
from ddlp.workers.device import WorkerDevice

_KEPT_RUNS = 4
_GRACE_S = 10.0
"""A batch that is only a little late is finished: it tells how long its device takes."""

log = logging.getLogger(__name__)


class Bench:
    """One worker process's place of work: its connection and the runs it has at hand."""

    def __init__(self, device: WorkerDevice, url: str) -> None:
        self._device = device
        self._client = Client(url)
        self._reports = Client(url)
        self._reporter = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._report: Future[None] | None = None
        self._store = BatchStore(device.store)
        self._producers: dict[uuid.UUID, Producer] = {}

    def handle(self, body: Any) -> None:
        """Work off one message. It may be late, doubled or nonsense: then nothing happens."""
        try:
            lease = Lease.model_validate(body)
        except ValidationError as error:
            log.warning("a message that is no lease was dropped: %s", error)
            return
        with _told(lease):
            claim = Claim(lease=lease, device=self._device.name)
            claimed = Claimed.model_validate(self._client.post("/leases/claim", claim))
            with _ended_after(claimed.lasts_s + min(claimed.lasts_s, _GRACE_S)):
                made = self._work(claimed.lease)
            if made is not None:
                self.settle()
                self._report = self._reporter.submit(self._commit, claimed.lease, made)

    def settle(self) -> None:
        """Wait until what was made so far is committed."""
        if self._report is not None:
            self._report.result()

    def _work(self, lease: Lease) -> Made | None:
        try:
            return self._producer(lease.run).make(lease, self._device.speed)
        except BadSample as error:
            self._fail(lease, str(error), permanent=True)
        except NoRoom as error:
            self._fail(lease, str(error), no_room=True)
        except DdlpError as error:
            self._fail(lease, str(error))
        except Exception as error:  # the border of the task: the run must learn of it
            log.exception("batch %d failed", lease.index)
            self._fail(lease, f"{type(error).__name__}: {error}")
        return None

    def _producer(self, run: uuid.UUID) -> Producer:
        if run not in self._producers:
            spec = WorkSpec.model_validate(self._client.get(f"/runs/{run}/work"))
            while len(self._producers) >= _KEPT_RUNS:
                del self._producers[next(iter(self._producers))]
            self._producers[run] = Producer(spec, self._store, self._device.name)
        return self._producers[run]

    def _commit(self, lease: Lease, made: Made) -> None:
        commit = Commit(
            lease=lease,
            device=self._device.name,
            nbytes=made.nbytes,
            checksum=made.checksum,
            seconds=made.seconds,
            cpu_s=made.cpu_s,
            bad=list(made.bad),
        )
        with _told(lease):
            try:
                self._reports.post("/leases/commit", commit)
            except Conflict:
                forget(made)
                raise
            except InvalidInput as error:
                forget(made)
                self._reports.post("/leases/fail", self._failure(lease, str(error), permanent=True))

    def _fail(
        self, lease: Lease, reason: str, permanent: bool = False, no_room: bool = False
    ) -> None:
        self._client.post("/leases/fail", self._failure(lease, reason, permanent, no_room))

    def _failure(
        self, lease: Lease, reason: str, permanent: bool = False, no_room: bool = False
    ) -> Failure:
        return Failure(
            lease=lease,
            device=self._device.name,
            reason=reason[:2000],
            permanent=permanent,
            no_room=no_room,
        )


@contextmanager
def _told(lease: Lease) -> Iterator[None]:
    """Note in the log what becomes of a lease that cannot be worked off, and nothing more."""
    try:
        yield
    except (Conflict, NotFound) as error:
        log.info("dropped: %s", error)
    except Unavailable as error:
        log.warning("gave up on batch %d: %s", lease.index, error)


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End this process if it is still in here after so many seconds."""
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
