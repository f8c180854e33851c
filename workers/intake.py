"""Whether a worker takes messages: one whose device is drained leaves them to the others."""

import logging
from typing import Any

from ddlp.core.seal import Seal

log = logging.getLogger(__name__)


class Intake:
    """The tap between a queue and the pool; what was taken already is finished."""

    def __init__(self, queue: str, seal: Seal) -> None:
        self._queue = queue
        self.seal = seal
        self._consumer: Any = None
        self.is_open = True

    def attach(self, consumer: Any) -> None:
        """The consumer that Celery has made ready."""
        self._consumer = consumer

    def set_open(self, wanted: bool) -> None:
        """Take messages, or leave them; Celery does so in its own thread, within a second."""
        if wanted == self.is_open or self._consumer is None:
            return
        self.is_open = wanted
        consumer = self._consumer
        if wanted:
            log.warning("the device is resumed: taking messages from queue %s", self._queue)
            consumer.call_soon(consumer.add_task_queue, self._queue)
        else:
            log.warning("the device is drained: queue %s is left to others", self._queue)
            consumer.call_soon(consumer.cancel_task_queue, self._queue)
