"""Kombu's Redis transport with a seal: messages are signed as they leave, checked as they come.

A foreign message is dropped before anything of it is unpacked: kombu would decompress it, and end
the process on one that is not JSON. The seal is handed over in the transport's options.
"""

from typing import Any, cast

from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as _redis
from redis.exceptions import ResponseError

from ddlp.core.seal import Seal

SEAL = "ddlp_seal"

_kombu: Any = _redis  # its types are known in part only
_NOT_JSON = (ValueError, RecursionError)


class QoS(_kombu.QoS):  # type: ignore[misc]
    """What was taken and not yet acknowledged lies in the broker too, where others can write."""

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        """Put a message back, unless what lies there is none."""
        try:
            super().restore_by_tag(tag, client, leftmost)
        except (*_NOT_JSON, TypeError, KeyError, AttributeError):
            self._remove_from_indices(tag).execute()
            self.channel.seal.drop()


class Channel(_kombu.Channel):  # type: ignore[misc]
    """A channel that signs and checks."""

    QoS = QoS

    @property
    def seal(self) -> Seal:
        """The seal of the connection."""
        return cast("Seal", self.connection.client.transport_options[SEAL])

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        self.seal.sign(queue, message)
        super()._put(queue, message, **kwargs)

    def _do_restore_message(
        self, payload: Any, exchange: Any, routing_key: Any, *others: Any
    ) -> None:
        opened = self.seal.opened(routing_key, payload)
        if opened is not None:
            super()._do_restore_message(opened, "", routing_key, *others)

    def _brpop_read(self, **options: Any) -> Any:
        self.connection.parsed = False
        try:
            return super()._brpop_read(**options)
        except _NOT_JSON:
            if self.connection.parsed:
                raise
        except ResponseError as error:
            # Something that is no list has the name of a queue.
            if not str(error).startswith("WRONGTYPE"):
                raise
            with self.conn_or_acquire() as client:
                client.delete(*(self._q_for_pri(queue, 0) for queue in self.active_queues))
        self.seal.drop()
        return True


class Transport(_kombu.Transport):  # type: ignore[misc]
    """A transport whose consumers see signed messages alone."""

    Channel = Channel
    parsed = False
    """Whether the element that is being read turned out to be JSON."""

    def _deliver(self, message: Any, queue: str) -> None:
        self.parsed = True
        seal: Seal = self.client.transport_options[SEAL]
        opened = seal.opened(queue, message)
        if opened is not None:
            super()._deliver(opened, queue)


def use_sealed_transport() -> None:
    """Have kombu take this transport for every URL of Redis; without a seal it carries nothing."""
    TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), f"{__name__}:Transport"))
