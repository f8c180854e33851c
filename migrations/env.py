"""Runs migrations on the engine it is given, or on the one that the settings name."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import context
from sqlalchemy import Connection

from ddlp.core.settings import load_settings
from ddlp.server.database import connect
from ddlp.server.models import Base


def run() -> None:
    """Run the migrations that were asked for."""
    engine = context.config.attributes.get("engine") or connect(load_settings().database)
    with engine.connect() as connection, _no_cascades(connection):
        context.configure(
            connection=connection,
            target_metadata=Base.metadata,
            render_as_batch=connection.dialect.name == "sqlite",
            compare_type=True,
        )
        with context.begin_transaction():
            context.run_migrations()
        connection.commit()


@contextmanager
def _no_cascades(connection: Connection) -> Iterator[None]:
    """SQLite changes a table by making it anew: what refers to the old one must outlive it."""
    if connection.dialect.name != "sqlite":
        yield
        return
    connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        connection.rollback()
        connection.exec_driver_sql("PRAGMA foreign_keys=ON")


run()
