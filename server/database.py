"""Connections to the database, and bringing its tables up to this version."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    DBAPIError,
    IntegrityError,
    TimeoutError,
)
from sqlalchemy.orm import Session, sessionmaker

import ddlp.migrations
from ddlp.core.errors import InvalidInput, Unavailable

_PATIENCE_S = 10


class Database:
    """One engine and its sessions."""

    def __init__(self, url: str) -> None:
        self.engine = connect(url)
        self._sessions = sessionmaker(self.engine, expire_on_commit=False)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session that commits at the end, or rolls back on any error."""
        with self._sessions() as session, session.begin():
            yield session

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
        if engine.url.database:
            Path(engine.url.database).parent.mkdir(parents=True, exist_ok=True)
        event.listen(engine, "connect", _prepare_sqlite)
    return engine


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


def refers_to_nothing(error: IntegrityError) -> bool:
    """Whether a row names another that is not there, rather than being there already."""
    state = getattr(error.orig, "sqlstate", None)
    name = getattr(error.orig, "sqlite_errorname", None)
    return state == "23503" or name == "SQLITE_CONSTRAINT_FOREIGNKEY"


def is_refusal(error: Exception) -> bool:
    """Whether the database works, and does not take a value that it was given."""
    return isinstance(error, DataError | IntegrityError | OverflowError)


def is_down(error: Exception) -> bool:
    """Whether the database itself fails."""
    return isinstance(error, DBAPIError | TimeoutError) and not is_refusal(error)


def alembic_config(engine: Engine) -> Config:
    """Alembic's configuration for the migrations that ship with this version."""
    config = Config()
    config.set_main_option("script_location", str(Path(ddlp.migrations.__file__).parent))
    config.attributes["engine"] = engine
    return config


def migrate(engine: Engine) -> None:
    """Bring the tables up to this version; a database of a newer version is left alone."""
    config = alembic_config(engine)
    try:
        with engine.connect() as connection:
            current = MigrationContext.configure(connection).get_current_revision()
    except DatabaseError as error:
        where = engine.url.render_as_string(hide_password=True)
        raise Unavailable(
            f"the database at {where} cannot be reached or read ({error.orig}); start or mend it, "
            "or use another DDLP_DATABASE_URL or DDLP_HOME"
        ) from error
    script = ScriptDirectory.from_config(config)
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
