"""Keeps a device's store: serves it, says how full it is, and clears away what nobody will read."""

import logging
import uuid

from ddlp.core.errors import DdlpError
from ddlp.core.messages import Orders, RoomInfo
from ddlp.core.store import StoreAddress, StoreOptions, open_store
from ddlp.core.store.served import StoreServer, new_key

_LOOKS = 10
"""It looks into the store once in so many signs of life: to count what lies there takes a while."""

log = logging.getLogger(__name__)


class StoreKeeper:
    """The store of one worker, as its main process sees it."""

    def __init__(
        self, address: StoreAddress, options: StoreOptions, serve: str | None = None
    ) -> None:
        self._store = open_store(address, options)
        self._server: StoreServer | None = None
        self.key: str | None = None
        self._beats = 0
        if serve is not None and address.folder is not None:
            self.key = new_key()
            self._server = StoreServer(address.folder, serve, self.key)
            self._server.listen()  # a worker whose address cannot be had does not start

    @property
    def serves(self) -> str | None:
        """Where trainers on other hosts find its batches."""
        return self._server.url if self._server else None

    def start(self) -> None:
        """Begin to serve."""
        if self._server is not None:
            self._server.start()

    def stop(self) -> None:
        """Serve no longer."""
        if self._server is not None:
            self._server.stop()

    def room(self) -> RoomInfo:
        """How full it is; unknown where it cannot be reached."""
        try:
            room = self._store.room()
        except (DdlpError, OSError) as error:
            log.warning("the store cannot be looked into: %s", error)
            return RoomInfo()
        return RoomInfo(used_bytes=room.used_bytes, free_bytes=room.free_bytes)

    def look(self) -> tuple[RoomInfo | None, dict[uuid.UUID, float]]:
        """How full it is and what lies there, now and then; else nothing."""
        self._beats += 1
        if self._beats % _LOOKS != 1:
            return None, {}
        try:
            return self.room(), self._store.runs()
        except (DdlpError, OSError) as error:
            log.warning("the store cannot be looked into: %s", error)
            return None, {}

    def obey(self, orders: Orders) -> None:
        """Clear away what the server says is of no use."""
        try:
            for attempt in orders.discard:
                self._store.discard(attempt.run, attempt.epoch, attempt.index, attempt.token)
            for run in orders.over:
                self._store.remove_run(run)
        except (DdlpError, OSError) as error:
            log.warning("the store cannot be cleared: %s", error)
