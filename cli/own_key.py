"""The key that `ddlp up` makes for the parts it starts, and the word about the first one."""

import shlex
import time
from pathlib import Path

from pydantic import SecretStr

from ddlp.core.settings import Settings
from ddlp.server import keys
from ddlp.server.database import Database
from ddlp.server.ownership import while_unowned


def make_own_key(settings: Settings) -> SecretStr:
    """A key of scope work in place of the one of the last start."""
    database = Database(settings.database)
    try:
        with while_unowned(database), database.session() as session:
            return SecretStr(keys.replace_own(session, time.time()).key)
    finally:
        database.close()


def known_admin(settings: Settings) -> bool:
    """Whether there is a key with which somebody can sign in and do everything."""
    database = Database(settings.database)
    try:
        with database.session() as session:
            return keys.has_admin(session)
    finally:
        database.close()


def first_key_command(home: Path) -> str:
    """What makes the first key, whatever folder it is run in."""
    return f"DDLP_HOME={shlex.quote(str(home))} ddlp keys create NAME --scope admin --local"
