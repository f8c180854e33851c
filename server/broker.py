"""Sends wake-ups to the Celery queues from a thread of its own.

A message may be lost: a broker that is away or slow must never hold up the dispatcher, so what does
not fit the short line before this thread is dropped, and its lease is given out again later.
"""

import logging
import queue
import threading

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from ddlp.core.messages import Lease
from ddlp.core.queue import TASK, check_broker, create_celery
from ddlp.core.types import Prong

_LINE = 4096
_EXPIRES_S = 600

log = logging.getLogger(__name__)


class Broker:
    """A short line of wake-ups and the thread that sends them."""

    def __init__(self, redis_url: str) -> None:
        self._url = redis_url
        self._celery: Celery = create_celery(redis_url)
        self._line: queue.Queue[tuple[Prong, list[Lease]] | None] = queue.Queue(_LINE)
        self._thread = threading.Thread(target=self._work, name="broker", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def check(self) -> None:
        """Raise unless the broker answers."""
        check_broker(self._url)

    def send(self, prong: Prong, leases: list[Lease]) -> None:
        """Queue a wake-up; never waits."""
        try:
            self._line.put_nowait((prong, leases))
        except queue.Full:
            log.warning("the broker is too slow; a wake-up was dropped")

    def close(self) -> None:
        """Send what is queued and end the thread."""
        self._line.put(None)
        self._thread.join(timeout=5)
        self._celery.close()

    def _work(self) -> None:
        while (item := self._line.get()) is not None:
            prong, leases = item
            try:
                self._celery.send_task(
                    TASK,
                    args=[[lease.model_dump(mode="json") for lease in leases]],
                    queue=prong.value,
                    expires=_EXPIRES_S,
                    retry=False,
                    ignore_result=True,
                )
            except (OperationalError, RedisError, OSError) as error:
                log.warning("the broker cannot be reached (%s); a wake-up was dropped", error)
