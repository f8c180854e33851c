"""Keys in the database that the settings name, without the server: how the first one is made."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError
from sqlalchemy.orm import Session

from ddlp.core.errors import InvalidInput
from ddlp.core.messages.keys import KeyCreate
from ddlp.core.settings import load_settings
from ddlp.core.types import Scope
from ddlp.server import keys
from ddlp.server.database import AWAY, Database, away
from ddlp.server.ownership import migrate_beside


def create(name: str, scope: Scope) -> dict[str, Any]:
    """Make a key, and say in which database."""
    try:
        wanted = KeyCreate(name=name, scope=scope)
    except ValidationError as error:
        raise InvalidInput(
            f"{name!r} cannot be a key's name; write letters, digits, dots and dashes, 64 at most"
        ) from error
    with _database() as (database, session):
        made = keys.add(session, wanted.name, wanted.scope, time.time())
        where = database.engine.url.render_as_string(hide_password=True)
        return {**made.model_dump(mode="json"), "database": where}


def list_all() -> list[dict[str, Any]]:
    """All keys there are and were."""
    with _database() as (_, session):
        return [info.model_dump(mode="json") for info in keys.list_all(session)]


def revoke(name: str) -> dict[str, Any]:
    """Refuse a key for good; a server that runs notices within seconds."""
    with _database() as (_, session):
        return keys.revoke(session, name, time.time()).model_dump(mode="json")


@contextmanager
def _database() -> Iterator[tuple[Database, Session]]:
    """The server's database, brought up to this version."""
    database = Database(load_settings().database)
    try:
        migrate_beside(database)
        with database.session() as session:
            yield database, session
    except AWAY as error:
        raise away(error) from error
    finally:
        database.close()
