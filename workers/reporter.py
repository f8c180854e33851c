"""Tells the server what a worker process made, in groups, while the process makes the next batch.

Should the process die before its report is out, its batch is as lost as if it had died a moment
earlier.
"""

import logging
import threading
import time
from collections.abc import Callable

from ddlp.core.client import Client
from ddlp.core.errors import TooLarge
from ddlp.core.messages import Commit, Failure, Lease, Reported, Reports
from ddlp.core.schedule import Made
from ddlp.core.stages import NO_TIMES

_DELAY_S = 0.2
"""A report waits so long for others to travel with, unless there will be none."""
_MOST = 512
_PATIENCE_S = 60.0
_IDLE_S = 5.0
"""After so long without a batch, what was kept for the next one is let go of."""

log = logging.getLogger(__name__)


class Reporter:
    """A line of reports and the thread that sends them."""

    def __init__(
        self,
        client: Client,
        device: str,
        forget: Callable[[Lease], None],
        on_idle: Callable[[], None] = lambda: None,
        telemetry: bool = True,
    ) -> None:
        self._client = client
        self._forget = forget
        self._on_idle = on_idle
        self._telemetry = telemetry
        self._device = device
        self._changed = threading.Condition()
        self._made: list[Commit] = []
        self._failed: list[Failure] = []
        self._sending = False
        self._hurry = False
        threading.Thread(target=self._work, name="reports", daemon=True).start()

    def made(self, lease: Lease, made: Made) -> None:
        """A batch is finished."""
        commit = Commit(
            lease=lease,
            nbytes=made.nbytes,
            checksum=made.checksum,
            seconds=made.seconds,
            cpu_s=made.cpu_s,
            bad=list(made.bad),
            times=made.times if self._telemetry else NO_TIMES,
            ended_s=time.monotonic(),
        )
        with self._changed:
            self._changed.wait_for(lambda: len(self._made) < _MOST, _PATIENCE_S)
            self._made.append(commit)
            self._changed.notify_all()

    def failed(self, failure: Failure) -> None:
        """A batch could not be made."""
        with self._changed:
            self._failed.append(failure)
            self._changed.notify_all()

    def flush(self) -> None:
        """Send what there is: nothing will be added soon."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()

    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until all that was said is sent."""
        self.flush()
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._sending, timeout_s)

    @property
    def _waiting(self) -> bool:
        return bool(self._made or self._failed)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._waiting, _IDLE_S):
                    self._on_idle()
                    self._changed.wait_for(lambda: self._waiting)
                self._changed.wait_for(lambda: self._hurry, _DELAY_S)
                made, self._made = self._made, []
                failed, self._failed = self._failed, []
                self._sending, self._hurry = True, False
                self._changed.notify_all()
            self._send(made, failed)
            with self._changed:
                self._sending = False
                self._changed.notify_all()

    def _send_less(self, made: list[Commit], failed: list[Failure], error: TooLarge) -> None:
        """Send in two parts what is too large for one."""
        if len(made) + len(failed) < 2:
            log.warning("gave up on a report: %s", error)
            return
        first, second = len(made) // 2, len(failed) // 2
        if len(made) == len(failed) == 1:
            second = 1
        self._send(made[:first], failed[:second])
        self._send(made[first:], failed[second:])

    def _send(self, made: list[Commit], failed: list[Failure]) -> None:
        try:
            body = Reports(device=self._device, sent_s=time.monotonic(), made=made, failed=failed)
            answer = Reported.model_validate(self._client.post("/leases/report", body))
        except TooLarge as error:
            self._send_less(made, failed, error)
            return
        except Exception as error:  # the border of the thread: what is not taken expires
            log.warning("gave up on %d reports: %s", len(made) + len(failed), error)
            return
        denied = {(d.lease.run, d.lease.epoch, d.lease.index, d.lease.token) for d in answer.denied}
        for lease in (commit.lease for commit in made):
            if (lease.run, lease.epoch, lease.index, lease.token) in denied:
                self._forget(lease)
        for entry in answer.denied:
            log.info("dropped: %s", entry.reason)
