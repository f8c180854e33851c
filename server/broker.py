"""Sends wake-ups to the Celery queues from a thread of its own.

A message may be lost: a broker that is away or slow must never hold up the dispatcher, so what does
not fit the short line before this thread is dropped, and its lease or shard is sent again later.
A message that is late needs no date of expiry, which a worker would judge by its own clock: whoever
takes it asks the server first, which knows whether the lease is still good.
"""

import logging
import queue
import threading
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from ddlp.core.messages import Lease, PackTask
from ddlp.core.outage import Outage
from ddlp.core.queue import PACK, TASK, check_broker, create_celery
from ddlp.core.seal import Seal
from ddlp.core.types import Prong

_LINE = 4096

log = logging.getLogger(__name__)


class Broker:
    """A short line of wake-ups and the thread that sends them."""

    def __init__(self, redis_url: str, queue_key: str) -> None:
        self._url = redis_url
        self._celery: Celery = create_celery(redis_url, Seal(queue_key))
        self._line: queue.Queue[tuple[str, Prong, Any] | None] = queue.Queue(_LINE)
        self._slow = Outage(log, "the broker is too slow, wake-ups are dropped")
        self._thread = threading.Thread(target=self._work, name="broker", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def check(self) -> None:
        """Raise unless the broker answers."""
        check_broker(self._url)

    def send(self, prong: Prong, leases: list[Lease]) -> None:
        """Queue a wake-up for batches; never waits."""
        self._queue(TASK, prong, [lease.model_dump(mode="json") for lease in leases])

    def send_pack(self, prong: Prong, task: PackTask) -> None:
        """Queue a wake-up for one shard; never waits."""
        self._queue(PACK, prong, task.model_dump(mode="json"))

    def _queue(self, task: str, prong: Prong, body: Any) -> None:
        try:
            self._line.put_nowait((task, prong, body))
            self._slow.succeeded()
        except queue.Full:
            self._slow.failed(queue.Full(f"{_LINE} wait already"))

    def close(self) -> None:
        """Send what is queued and end the thread."""
        self._line.put(None)
        self._thread.join(timeout=5)
        self._celery.close()

    def _work(self) -> None:
        outage = Outage(log, "the broker cannot be reached, wake-ups are dropped")
        while (item := self._line.get()) is not None:
            task, prong, body = item
            try:
                self._celery.send_task(
                    task,
                    args=[body],
                    queue=prong.value,
                    retry=False,
                    ignore_result=True,
                )
            except (OperationalError, RedisError, OSError) as error:
                outage.failed(error)
            else:
                outage.succeeded()
