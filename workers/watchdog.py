"""Notices a consumer that is alive but takes nothing, and starts the worker anew.

A Celery worker can lose its broker in a way that it never recovers from. What counts is progress:
when messages wait in the queue while every process of the pool idles, something is wrong.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from ddlp.core.process import die_with_parent

PATIENCE_S = 4.0


class Watchdog:
    """Looks at the queue of one prong beside the consumer, over a connection of its own."""

    def __init__(
        self,
        redis_url: str,
        queue: str,
        busy: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._redis = Redis.from_url(redis_url, socket_connect_timeout=2, socket_timeout=2)
        self._queue = queue
        self._busy = busy
        self._clock = clock
        self._since: float | None = None

    def stuck(self) -> bool:
        """Whether messages have been waiting for a while and nobody works."""
        if self._busy() or not self._waiting():
            self._since = None
            return False
        now = self._clock()
        if self._since is None:
            self._since = now
        return now - self._since > PATIENCE_S

    def close(self) -> None:
        """Close the connection."""
        self._redis.close()

    def _waiting(self) -> bool:
        try:
            return self._redis.llen(self._queue) > 0
        except (RedisError, OSError):
            return False  # no broker, no messages: the consumer is not to blame


def start_anew(death_signal: int) -> None:
    """Replace this process by a new one with the same command, its pool ended.

    The kernel ties a process to its parent's end by thread: the tie is made anew in this one.
    """
    if death_signal:
        die_with_parent(os.getppid(), signal.Signals(death_signal))
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
    os.execv(sys.executable, [sys.executable, "-m", "ddlp.cli", *sys.argv[1:]])
