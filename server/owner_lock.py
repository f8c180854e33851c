"""The lock that keeps a second server off a database: advisory on PostgreSQL, a file for SQLite.

The kernel, or PostgreSQL, lets it go when its process dies. It is the doorkeeper only: what keeps
two servers apart when a lock is lost is the epoch in `server/ownership.py`.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

_KEY = int.from_bytes(b"ddlp-own")
_LIMIT_S = 2
"""A statement on the lock's own connection takes no longer."""
_SESSION = (
    f"set statement_timeout = '{_LIMIT_S}s'",
    # A server whose host is gone must not hold the lock for hours.
    "set tcp_keepalives_idle = 10",
    "set tcp_keepalives_interval = 5",
    "set tcp_keepalives_count = 3",
)


class OwnerLock(Protocol):
    """One of the two locks, and a connection on which no statement takes long."""

    connection: Connection | None

    def take(self) -> bool:
        """Take it if it is free; True as well for whoever has it already."""

    def release(self) -> None:
        """Let it go, and close the connection."""


class AdvisoryLock:
    """Held by a connection of its own; lost when that breaks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.connection: Connection | None = None

    def take(self) -> bool:
        """Connect where that is needed, and try."""
        if self.connection is not None:
            return True
        opened = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            for setting in _SESSION:
                opened.execute(text(setting))
            if opened.scalar(text("select pg_try_advisory_lock(:key)"), {"key": _KEY}):
                self.connection = opened
        finally:
            if self.connection is None:
                opened.close()
        return self.connection is not None

    def release(self) -> None:
        """Close the connection for good, which lets the lock go."""
        if self.connection is not None:
            with suppress(DBAPIError):
                self.connection.close()
            self.connection = None
        self._engine.dispose()


class FileLock:
    """A locked file beside the database; one in memory is nobody else's anyway."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        name = engine.url.database
        self._path = None if name in (None, "", ":memory:") else Path(f"{name}.owner")
        self._file: int | None = None
        self.connection: Connection | None = None

    def take(self) -> bool:
        """Lock the file, and connect where that is needed."""
        if self._file is None and self._path is not None:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return False
            self._file = file
        if self.connection is None:
            opened = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            opened.execute(text(f"pragma busy_timeout = {_LIMIT_S * 1000}"))
            self.connection = opened
        return True

    def release(self) -> None:
        """Close the file, which lets the lock go."""
        if self.connection is not None:
            with suppress(DBAPIError):
                self.connection.close()
            self.connection = None
        self._engine.dispose()
        if self._file is not None:
            os.close(self._file)
            self._file = None


def owner_lock(engine: Engine) -> OwnerLock:
    """The lock of a database."""
    return FileLock(engine) if engine.dialect.name == "sqlite" else AdvisoryLock(engine)
