"""The keys that a server makes for its own workers, and the word about the first one."""

import shlex
import time
from contextlib import suppress
from pathlib import Path

from pydantic import SecretStr

from ddlp.core.errors import InvalidInput
from ddlp.core.private import make_private_file
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


def keep_key_file(database: Database, file: Path) -> None:
    """Have a good key of scope work in a file that only this user can read."""
    with suppress(FileNotFoundError, ValueError), database.session() as session:
        if keys.is_good(session, file.read_text().strip()):
            return
    new = file.with_name(f"{file.name}.new")
    try:
        with database.session() as session:
            made = keys.replace_own(session, time.time())
            make_private_file(new)
            new.write_text(made.key + "\n")
            new.replace(file)
    except OSError as error:
        raise InvalidInput(
            f"DDLP_KEY_FILE={file} cannot be written ({error.strerror}); name a file in a folder "
            "that this user may write to"
        ) from error


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
