"""Connections to the database, and bringing its tables up to this version."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, sessionmaker

import ddlp.migrations
from ddlp.core.errors import InvalidInput, Unavailable
from ddlp.core.private import make_private_file
from ddlp.server.models import Base

AWAY = (OperationalError, InterfaceError, InternalError, PoolTimeout)
"""What is raised when the database is not there, or takes nothing now."""

_PATIENCE_S = 10
_WROTE = "ddlp_wrote"


class Database:
    """One engine and its sessions."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = connect(url)
        self._sessions = sessionmaker(self.engine, expire_on_commit=False)
        self._check: Callable[[Session], None] | None = None

    def guard(self, check: Callable[[Session], None]) -> None:
        """Have every transaction that writes call this before it commits; it may raise."""
        event.listen(self.engine, "before_cursor_execute", _note_write)
        self._check = check

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session that commits at the end, or rolls back on any error."""
        with self._sessions() as session, session.begin():
            yield session
            if self._check is not None:
                session.flush()
                if session.connection().info.pop(_WROTE, False):
                    self._check(session)

    def now(self) -> float:
        """The database's clock, in seconds since 1970."""
        of_dialect = {
            "sqlite": "select (julianday('now') - 2440587.5) * 86400.0",
            "postgresql": "select extract(epoch from clock_timestamp())",
        }
        with self.engine.connect() as connection:
            return float(connection.scalar(text(of_dialect[self.engine.dialect.name])))

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def connect(url: str) -> Engine:
    """An engine for SQLite or PostgreSQL."""
    if url.startswith("postgresql://"):
        url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    try:
        engine = create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    except (ArgumentError, ImportError) as error:
        raise InvalidInput(
            f"DDLP_DATABASE_URL cannot be used ({error}); write sqlite:///FILE or "
            "postgresql://USER:PASSWORD@HOST/NAME"
        ) from error
    if engine.dialect.name == "sqlite":
        _make_file(engine.url.database)
        event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _make_file(name: str | None) -> None:
    """SQLite gives its further files the mode of the database: only this user can read them."""
    if name and name != ":memory:" and not name.startswith("file:"):
        Path(name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in (name, f"{name}-wal", f"{name}-shm"):
            if file == name or Path(file).exists():
                make_private_file(Path(file))


def _note_write(connection: Connection, _: object, statement: str, *__: object) -> None:
    """Remember of a transaction that it does more than read."""
    if statement.lstrip()[:6].upper() != "SELECT":
        connection.info[_WROTE] = True


def _prepare_sqlite(connection: Any, _: object) -> None:
    for pragma in (
        "journal_mode=WAL",
        "synchronous=NORMAL",
        "foreign_keys=ON",
        f"busy_timeout={_PATIENCE_S * 1000}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def insert_of(session: Session) -> Any:
    """The database's own INSERT, which can do something else where a row is there already."""
    dialects = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
    return dialects[session.get_bind().dialect.name]


def steady_clock(now: float) -> Callable[[], float]:
    """A clock that runs on evenly from now, whatever is done to the machine's clock meanwhile."""
    offset = now - time.monotonic()
    return lambda: offset + time.monotonic()


def words_of(error: Exception) -> str:
    """Return what a database said, without the statement that it was asked."""
    if not isinstance(error, SQLAlchemyError):
        return repr(error)
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return str(cause).strip().split("\n")[0] or type(cause).__name__


def away(error: Exception) -> Unavailable:
    """Return the one error that callers get when the database fails, wherever it is met."""
    return Unavailable(f"the database did not take it ({words_of(error)}); try again")


def refers_to_nothing(error: IntegrityError) -> bool:
    """Whether a row names another that is not there, rather than being there already."""
    state = getattr(error.orig, "sqlstate", None)
    name = getattr(error.orig, "sqlite_errorname", None)
    return state == "23503" or name == "SQLITE_CONSTRAINT_FOREIGNKEY"


def is_refusal(error: Exception) -> bool:
    """Whether the database works, and does not take a value that it was given."""
    return isinstance(error, DataError | IntegrityError | OverflowError)


def is_down(error: Exception) -> bool:
    """Whether the database itself fails; a statement that it cannot read is our mistake."""
    damaged = type(error) is DatabaseError  # SQLite's only word for a file that is none of its
    return isinstance(error, AWAY) or damaged


def alembic_config(engine: Engine) -> Config:
    """Alembic's configuration for the migrations that ship with this version."""
    config = Config()
    config.set_main_option("script_location", str(Path(ddlp.migrations.__file__).parent))
    config.attributes["engine"] = engine
    return config


def is_current(engine: Engine) -> bool:
    """Whether the tables are of this version."""
    head = ScriptDirectory.from_config(alembic_config(engine)).get_current_head()
    return _revision(engine) == head


def migrate(engine: Engine) -> None:
    """Bring the tables up to this version; a database of a newer version is left alone."""
    config = alembic_config(engine)
    current = _revision(engine)
    script = ScriptDirectory.from_config(config)
    if current is None:
        _check_empty(engine)
    if current is not None:
        try:
            script.get_revision(current)
        except CommandError as error:
            raise InvalidInput(
                f"the database is of a newer version of DDLP (revision {current}); "
                "install that version, or use another DDLP_HOME or DDLP_DATABASE_URL"
            ) from error
    if current != script.get_current_head():
        command.upgrade(config, "head")


def _check_empty(engine: Engine) -> None:
    """Refuse tables of ours that do not say of which version they are."""
    found = set(inspect(engine).get_table_names()) & set(Base.metadata.tables)
    if found:
        where = engine.url.render_as_string(hide_password=True)
        raise InvalidInput(
            f"the database at {where} has tables ({', '.join(sorted(found)[:3])}, …) but does not "
            "say of which version: alembic_version is missing or empty. Restore it from a backup, "
            "or use an empty database with another DDLP_HOME or DDLP_DATABASE_URL"
        )


def _revision(engine: Engine) -> str | None:
    """The version of the tables; None where there are none."""
    try:
        with engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    except DatabaseError as error:
        where = engine.url.render_as_string(hide_password=True)
        raise Unavailable(
            f"the database at {where} cannot be reached or read ({error.orig}); start or mend it, "
            "or use another DDLP_DATABASE_URL or DDLP_HOME"
        ) from error
