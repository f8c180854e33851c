"""Messages to workers are signed: whoever reaches the broker can hold up work, but give none.

The server makes a secret and gives it to those who may work (`POST /devices/queue-key`). The
signature covers the queue, the task, its id and its body. Nothing else of a message is believed:
a worker takes these four and writes the rest, headers and properties, itself.
"""

import hashlib
import hmac
import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from ddlp.core.client import Client

_SIGNATURE = "ddlp-signature"
_SAY_EVERY_S = 60.0

log = logging.getLogger(__name__)


class Seal:
    """The secret, and how many messages were dropped for not having been made with it."""

    def __init__(self, key: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.key = key
        self.dropped = 0
        self._clock = clock
        self._said, self._say_at = 0, 0.0
        self._lock = threading.Lock()

    def sign(self, queue: str, message: dict[str, Any]) -> None:
        """Put the signature into the headers of a message as kombu makes it."""
        headers = message["headers"]
        headers[_SIGNATURE] = self._of(queue, headers["task"], headers["id"], message["body"])

    def opened(self, queue: str, message: object) -> dict[str, Any] | None:
        """The message as it was signed for this queue; None, and counted, for any other one."""
        try:
            body, headers = message["body"], message["headers"]  # type: ignore[index]
            task, number, given = headers["task"], headers["id"], headers[_SIGNATURE]
            good = hmac.compare_digest(self._of(queue, task, number, body), given)
        except (TypeError, KeyError, IndexError, ValueError):
            good = False
        if not good:
            self.drop()
            return None
        return _rebuilt(queue, task, number, body, given)

    def drop(self) -> None:
        """Count a message that was not taken; say so now and then, with how many they were."""
        with self._lock:
            self.dropped += 1
            now = self._clock()
            if self._said and now < self._say_at:
                return
            count, self._said, self._say_at = self.dropped - self._said, self.dropped, now
            self._say_at += _SAY_EVERY_S
        log.warning(
            "dropped %d message(s) that the server did not sign (%d since the start); see who "
            "else can reach the broker, and give it a password",
            count,
            self.dropped,
        )

    def _of(self, *parts: str) -> str:
        return hmac.new(self.key.encode(), "\0".join(parts).encode(), hashlib.sha256).hexdigest()


def fetch_key(client: Client) -> str:
    """Ask the server for the secret; the client's key must be good for work."""
    found: str = client.post("/devices/queue-key")["key"]
    return found


def _rebuilt(queue: str, task: str, number: str, body: str, signature: str) -> dict[str, Any]:
    return {
        "body": body,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {
            "lang": "py",
            "task": task,
            "id": number,
            "root_id": number,
            _SIGNATURE: signature,
        },
        "properties": {
            "body_encoding": "base64",
            "correlation_id": number,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "delivery_tag": str(uuid.uuid4()),
            "priority": 0,
        },
    }
