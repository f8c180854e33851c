"""One server owns a database: the second is refused, and one that lost it writes nothing more."""

import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from ddlp.core.errors import Conflict
from ddlp.core.types import Prong, RunState
from ddlp.server.database import Database, migrate
from ddlp.server.ledger import audit
from ddlp.server.models import AuditEvent
from ddlp.server.ownership import Ownership, OwnershipLost, migrate_beside, while_unowned
from tests.server.conftest import Plane, clear
from tests.server.driving import ask, new_run, register, state_of

HERE = "http://127.0.0.1:8000"


@pytest.fixture
def databases(engine: Engine) -> Iterator[list[Database]]:
    """Two servers' ways to one database."""
    url = engine.url.render_as_string(hide_password=False)
    found = [Database(url), Database(url)]
    yield found
    for database in found:
        database.close()


def take_over(database: Database) -> None:
    """What the next owner does first, although the lock is not free."""
    with database.session() as session:
        session.execute(text("update server_owner set epoch = epoch + 1, host = 'other'"))


def write(database: Database) -> None:
    with database.session() as session:
        audit(session, "test", "test", 0)


def written(database: Database) -> int:
    with database.session() as session:
        return session.query(AuditEvent).count()


def test_the_second_is_refused_in_the_name_of_the_first(databases: list[Database]) -> None:
    first, second = databases
    owner = Ownership.take(first, HERE)
    said = f"process {os.getpid()} on {socket.gethostname()}, since 20"
    with pytest.raises(Conflict, match=said) as caught:
        Ownership.take(second, "http://127.0.0.1:9", wait_s=0)
    assert HERE in str(caught.value)
    owner.stop()
    other = Ownership.take(second, HERE, wait_s=0)
    assert other.owner.epoch == owner.owner.epoch + 1
    other.stop()


def test_what_a_second_server_would_prepare_is_refused_too(databases: list[Database]) -> None:
    owner = Ownership.take(databases[0], HERE)
    migrate_beside(databases[1])
    with pytest.raises(Conflict, match="belongs to another server"), while_unowned(databases[1]):
        raise AssertionError("it is owned")
    owner.stop()
    with while_unowned(databases[1]):
        pass


def test_tables_are_not_changed_under_a_server(engine: Engine, databases: list[Database]) -> None:
    owner = Ownership.take(databases[0], HERE)
    with engine.begin() as connection:
        connection.execute(text("update alembic_version set version_num = '0010'"))
    with pytest.raises(Conflict, match="belongs to another server"):
        migrate_beside(databases[1])
    owner.stop()


def test_who_lost_it_writes_nothing_more_but_reads(databases: list[Database]) -> None:
    first, second = databases
    owner = Ownership.take(first, HERE)
    told: list[bool] = []
    owner.tell_when_lost(lambda: told.append(True))
    write(first)
    take_over(second)
    for _ in range(2):
        with pytest.raises(OwnershipLost, match=r"on other, .* this server writes no more"):
            write(first)
    assert written(first) == 1
    assert told == [True]
    owner.stop()


def test_who_asks_only_after_it_was_lost_is_told_so_too(databases: list[Database]) -> None:
    first, second = databases
    owner = Ownership.take(first, HERE)
    take_over(second)
    with pytest.raises(OwnershipLost):
        write(first)
    told: list[bool] = []
    owner.tell_when_lost(lambda: told.append(True))
    assert told == [True]
    owner.stop()


def test_it_is_noticed_without_a_write_too(databases: list[Database]) -> None:
    owner = Ownership.take(databases[0], HERE)
    owner.renew()
    assert owner.refusal is None
    take_over(databases[1])
    owner.renew()
    assert "on other" in str(owner.refusal)
    owner.stop()


def test_nobody_takes_over_between_the_check_and_the_commit(databases: list[Database]) -> None:
    first, second = databases
    owner = Ownership.take(first, HERE)
    impatient = {
        "sqlite": "pragma busy_timeout = 50",
        "postgresql": "set lock_timeout = 50",
    }[second.engine.dialect.name]
    with first.session() as session:
        audit(session, "test", "test", 0)
        session.flush()
        owner.check(session)
        with second.engine.connect() as connection:
            connection.execute(text(impatient))
            with pytest.raises(OperationalError):
                connection.execute(text("update server_owner set epoch = epoch + 1"))
    assert written(first) == 1
    owner.stop()


def test_a_lock_that_is_lost_with_its_connection_is_taken_again(postgres_url: str) -> None:
    database = Database(postgres_url)
    migrate(database.engine)
    owner = Ownership.take(database, HERE)
    with database.session() as session:
        query = "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'"
        session.execute(text(query))
    owner.renew()
    assert "takes no writes" in str(owner.refusal)
    write(database)
    owner.renew()
    assert owner.refusal is None
    second = Database(postgres_url)
    with pytest.raises(Conflict):
        Ownership.take(second, HERE, wait_s=0)
    owner.stop()
    clear(database.engine)
    second.close()
    database.close()


def test_a_dispatcher_that_lost_it_answers_everybody_so(either_plane: Plane, images: Path) -> None:
    plane = either_plane
    register(plane, Prong.CPU)
    run = new_run(plane, images)
    owner = Ownership.take(plane.database, HERE)
    other = Database(plane.settings.database)
    take_over(other)
    for _ in range(2):
        with pytest.raises(OwnershipLost, match="on other"):
            plane.dispatcher.change_state(run, RunState.PAUSED).result(10)
    assert state_of(plane, run) is not RunState.PAUSED
    with pytest.raises(OwnershipLost):
        ask(plane, lambda *_: uuid.uuid4())
    owner.stop()
    other.close()
