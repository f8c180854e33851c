"""Which server owns the schedules of a database: one at a time, each with an epoch of its own.

A lock keeps a second server out (`server/owner_lock.py`), but a lock can be lost without a word. So
whoever becomes the owner raises the epoch in the database, and every transaction of a server that
writes checks in that same transaction that the epoch is still its own. On PostgreSQL the check
holds the row, on SQLite the transaction holds the file: nobody takes over before the commit.
"""

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, select, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, Unavailable
from ddlp.server.database import Database, connect, is_current, migrate
from ddlp.server.models import ServerOwner
from ddlp.server.owner_lock import OwnerLock, owner_lock

_ROW = 1
_PERIOD_S = 2.0
_PATIENCE_S = 5.0
"""A server that was killed may hold its lock a little longer than it lives."""
_RETRY_S = 0.1
_SILENT_S = 10.0
"""A renewal that has not come back for so long counts as one that failed."""

log = logging.getLogger(__name__)


class OwnershipLost(Unavailable):
    """Another server owns the schedules now: this one writes nothing more."""


@dataclass(frozen=True)
class Owner:
    """A server, as the database names it."""

    epoch: int
    host: str
    pid: int
    address: str
    since: float
    queue_key: str = field(repr=False)

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"process {self.pid} on {self.host}, since {at}, at {self.address}"


class Ownership(threading.Thread):
    """This server's right to write; renewed every other second, which also shows that it can."""

    def __init__(self, database: Database, lock: OwnerLock, owner: Owner) -> None:
        super().__init__(name="ownership", daemon=True)
        self._database = database
        self._lock = lock
        self._stopping = threading.Event()
        self._refusal: str | None = None
        self._written_at = time.monotonic()
        self.owner = owner
        self.lost: OwnershipLost | None = None
        self._when_lost: Callable[[], object] = lambda: None

    @classmethod
    def take(cls, database: Database, address: str, wait_s: float = _PATIENCE_S) -> "Ownership":
        """Become the owner and bring the tables up to this version, or name who is it."""
        lock = owner_lock(connect(database.url))
        try:
            if not _wait_for(lock, wait_s):
                raise _taken(database.engine)
            migrate(database.engine)
            with database.session() as session:
                owner = _claim(session, address)
        except BaseException:
            lock.release()
            raise
        found = cls(database, lock, owner)
        database.guard(found.check)
        return found

    def tell_when_lost(self, tell: Callable[[], object]) -> None:
        """Have this called when another server turns out to have taken over, or has already."""
        self._when_lost = tell
        if self.lost is not None:
            tell()

    def run(self) -> None:
        """Renew it until told to stop or until it is lost."""
        while self.lost is None and not self._stopping.wait(_PERIOD_S):
            self.renew()

    def stop(self) -> None:
        """Let the lock go: the next server starts at once."""
        self._stopping.set()
        if self.is_alive():
            self.join(timeout=10)
        self._lock.release()

    def check(self, session: Session) -> None:
        """Raise unless this server is the owner until the transaction at hand is over."""
        query = select(ServerOwner.epoch).where(ServerOwner.id == _ROW)
        self._compare(session.scalar(query.with_for_update(read=True)))

    def renew(self) -> None:
        """Write that this server lives, over the connection of its lock."""
        try:
            if self._lock.take() and self._lock.connection is not None:
                self._write(self._lock.connection)
                self._refusal, self._written_at = None, time.monotonic()
            else:
                # The lock was lost with its connection; what counts is who owns the row.
                self._refusal = "its lock is held by another process"
                with self._database.session() as session:
                    self._compare(session.scalar(select(ServerOwner.epoch)))
        except OwnershipLost:
            pass
        except (SQLAlchemyError, OSError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            self._refusal = f"it takes no writes ({str(cause).strip()})"
            # A lock is let go only with a connection that is broken, not with one that has to wait.
            if isinstance(error, DBAPIError) and error.connection_invalidated:
                self._lock.release()

    @property
    def refusal(self) -> str | None:
        """Why this server cannot write, as of its last renewal; None where it can."""
        if self.lost is not None:
            return str(self.lost)
        silent_s = time.monotonic() - self._written_at
        if self._refusal is None and silent_s > _SILENT_S:
            return f"it has taken no write for {silent_s:.0f} s"
        return self._refusal

    def _write(self, connection: Connection) -> None:
        mine = ServerOwner.id == _ROW, ServerOwner.epoch == self.owner.epoch
        found = connection.execute(update(ServerOwner).where(*mine).values(seen_at=time.time()))
        if not found.rowcount:
            self._compare(None)

    def _compare(self, epoch: int | None) -> None:
        if self.lost is None and epoch != self.owner.epoch:
            self.lost = OwnershipLost(
                f"{_whose(self._database.engine)}; this server writes no more"
            )
            log.error("%s", self.lost)
            self._when_lost()
        if self.lost is not None:
            raise self.lost


@contextmanager
def while_unowned(database: Database) -> Iterator[None]:
    """Do something to a database, at its tables' present version, that no server is using."""
    lock = owner_lock(connect(database.url))
    try:
        if not _wait_for(lock, _PATIENCE_S):
            raise _taken(database.engine)
        migrate(database.engine)
        yield
    finally:
        lock.release()


def migrate_beside(database: Database) -> None:
    """Bring the tables up to this version, unless a server is using them: it has done so."""
    if not is_current(database.engine):
        with while_unowned(database):
            pass


def _wait_for(lock: OwnerLock, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while not lock.take():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_RETRY_S)
    return True


def _claim(session: Session, address: str) -> Owner:
    """Raise the epoch; from then on the server before cannot write."""
    row = session.get(ServerOwner, _ROW, with_for_update=True)
    if row is None:
        row = ServerOwner(id=_ROW, epoch=0, queue_key=secrets.token_hex(32))
        session.add(row)
    row.epoch += 1
    row.host, row.pid, row.address = socket.gethostname()[:255], os.getpid(), address
    row.since = row.seen_at = time.time()
    return _owner(row)


def _owner(row: ServerOwner) -> Owner:
    return Owner(row.epoch, row.host, row.pid, row.address, row.since, row.queue_key)


def _whose(engine: Engine) -> str:
    """Whose a database is, as far as that can be read."""
    where = engine.url.render_as_string(hide_password=True)
    with suppress(SQLAlchemyError), Session(engine) as session:
        row = session.get(ServerOwner, _ROW)
        if row is not None:
            return f"the database at {where} belongs to another server: {_owner(row)}"
    return f"the database at {where} belongs to another server"


def _taken(engine: Engine) -> Conflict:
    return Conflict(
        f"{_whose(engine)}; use that one, end it, or give this one a DDLP_HOME or "
        "DDLP_DATABASE_URL of its own"
    )
