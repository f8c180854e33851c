"""A server that asks for keys keeps one for its workers in a file that only its user reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlp.cli.own_key import keep_key_file
from ddlp.core.client import shown_key
from ddlp.core.errors import InvalidInput
from ddlp.core.settings import Settings
from ddlp.core.types import Scope
from ddlp.server import keys
from ddlp.server.database import Database, migrate
from ddlp.server.keys import UP


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(f"sqlite:///{tmp_path}/test.db")
    migrate(found.engine)
    yield found
    found.close()


def test_it_is_made_once_and_kept(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "work-key"
    keep_key_file(database, file)
    made = shown_key(Settings(key_file=file))
    assert file.stat().st_mode & 0o777 == 0o600
    with database.session() as session:
        assert keys.is_good(session, made)
        assert [key.scope for key in keys.list_all(session)] == [Scope.WORK]
    keep_key_file(database, file)
    assert shown_key(Settings(key_file=file)) == made


def test_one_that_is_good_no_longer_is_replaced(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "work-key"
    keep_key_file(database, file)
    before = file.read_text()
    with database.session() as session:
        keys.revoke(session, UP, 0)
    keep_key_file(database, file)
    assert file.read_text() != before
    file.write_bytes(b"\xff no key")
    keep_key_file(database, file)
    with database.session() as session:
        assert keys.is_good(session, file.read_text().strip())


def test_a_place_that_cannot_be_written_to_is_named(database: Database, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"DDLP_KEY_FILE=.* cannot be written"):
        keep_key_file(database, tmp_path / "none" / "work-key")
    with database.session() as session:
        assert keys.list_all(session) == []


def test_the_key_itself_comes_before_its_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    assert shown_key(Settings(key_file=file)) == ""
    file.write_text("ddlp_x\n")
    assert shown_key(Settings(key_file=file)) == "ddlp_x"
    assert shown_key(Settings(key_file=file, key="ddlp_y")) == "ddlp_y"
    with pytest.raises(InvalidInput, match="DDLP_KEY_FILE"):
        shown_key(Settings(key_file=tmp_path))
