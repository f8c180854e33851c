"""Keeps a device's store: serves it, says how full it is, and clears away what nobody will read.

To look into a store may take long, and so may clearing it: that is done in a thread of its own, so
that the device goes on giving signs of life.
"""

import logging
import threading
import uuid
from heapq import nlargest
from operator import itemgetter

from ddlp.core.errors import DdlpError
from ddlp.core.messages import Attempt, Orders, RoomInfo
from ddlp.core.messages.base import MOST_S
from ddlp.core.messages.work import MOST_RUNS
from ddlp.core.store import StoreAddress, StoreOptions, open_store
from ddlp.core.store.served import StoreServer, new_key

_PERIOD_S = 10.0
"""So often it looks into the store."""
_STOP_S = 5.0

log = logging.getLogger(__name__)


class StoreKeeper:
    """The store of one worker, as its main process sees it."""

    def __init__(
        self, address: StoreAddress, options: StoreOptions, serve: str | None = None
    ) -> None:
        self._store = open_store(address, options)
        self._server: StoreServer | None = None
        self.key: str | None = None
        self._change = threading.Condition()
        self._discard: dict[tuple[uuid.UUID, int, int, int], None] = {}
        self._over: set[uuid.UUID] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._keep, name="ddlp-keeper", daemon=True)
        if serve is not None and address.folder is not None:
            self.key = new_key()
            self._server = StoreServer(address.folder, serve, self.key)
            self._server.listen()  # a worker whose address cannot be had does not start
        self.room = self._room()
        """How full it was when it was last looked into."""
        self._news: tuple[RoomInfo, dict[uuid.UUID, float]] | None = None

    @property
    def serves(self) -> str | None:
        """Where trainers on other hosts find its batches."""
        return self._server.url if self._server else None

    def start(self) -> None:
        """Begin to serve, and to look after it."""
        if self._server is not None:
            self._server.start()
        self._thread.start()

    def stop(self) -> None:
        """Serve no longer."""
        with self._change:
            self._stopping = True
            self._change.notify_all()
        if self._server is not None:
            self._server.stop()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def take_news(self) -> tuple[RoomInfo | None, dict[uuid.UUID, float]]:
        """How full it is and what lies there, if that was looked at since it was last asked."""
        with self._change:
            news, self._news = self._news, None
        return news or (None, {})

    def obey(self, orders: Orders) -> None:
        """Have that cleared away which the server says is of no use."""
        if not orders.discard and not orders.over:
            return
        with self._change:
            self._discard |= {_key(attempt): None for attempt in orders.discard}
            self._over |= set(orders.over)
            self._change.notify_all()

    def _keep(self) -> None:
        while not self._stopping:
            self._look()
            with self._change:
                self._change.wait_for(self._has_orders, _PERIOD_S)
                discard, self._discard = self._discard, {}
                over, self._over = self._over, set()
            self._clear(list(discard), over)

    def _has_orders(self) -> bool:
        return self._stopping or bool(self._discard or self._over)

    def _look(self) -> None:
        room = self._room()
        try:
            runs = self._store.runs()
        except (DdlpError, OSError) as error:
            log.warning("the store cannot be looked into: %s", error)
            return
        oldest = nlargest(MOST_RUNS, runs.items(), key=itemgetter(1))
        ages = {run: min(age_s, MOST_S) for run, age_s in oldest}
        with self._change:
            self.room, self._news = room, (room, ages)

    def _room(self) -> RoomInfo:
        """How full it is; unknown where it cannot be reached."""
        try:
            room = self._store.room()
        except (DdlpError, OSError) as error:
            log.warning("the store cannot be looked into: %s", error)
            return RoomInfo()
        return RoomInfo(used_bytes=room.used_bytes, free_bytes=room.free_bytes)

    def _clear(self, discard: list[tuple[uuid.UUID, int, int, int]], over: set[uuid.UUID]) -> None:
        for key in discard:
            try:
                self._store.discard(*key)
            except (DdlpError, OSError) as error:
                log.warning("an attempt at batch %d cannot be cleared away: %s", key[2], error)
        for run in over:
            try:
                self._store.remove_run(run)
            except (DdlpError, OSError) as error:
                log.warning("run %s cannot be cleared away: %s", run, error)


def _key(attempt: Attempt) -> tuple[uuid.UUID, int, int, int]:
    return attempt.run, attempt.epoch, attempt.index, attempt.token
