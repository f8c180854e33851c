"""A request with an Idempotency-Key is done once; who repeats it gets the same answer."""

import asyncio
import threading
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Engine, text

from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.messages.keys import KeyMade
from ddlp.core.types import Scope
from ddlp.server import keys
from ddlp.server.database import Database, migrate
from ddlp.server.idempotency import Once, forget_answers, get_once
from ddlp.server.identity import Identity, acting_as
from tests.server.apps import client_of
from tests.server.conftest import Plane

NOW = 1000.0
"""A server's clock, which need not be this machine's."""


@pytest.fixture
def database(engine: Engine) -> Iterator[Database]:
    migrate(engine)
    found = Database(engine.url.render_as_string(hide_password=False))
    yield found
    found.close()


def make(database: Database, key: str | None, name: str = "ann") -> tuple[KeyMade, bool]:
    """As the route that makes keys does it."""
    with database.session() as session:
        once = Once(key, f"POST /keys {name}", NOW)
        return once.answer(session, KeyMade, lambda: keys.add(session, name, Scope.READ, NOW))


def count(database: Database) -> int:
    with database.session() as session:
        return len(keys.list_all(session))


def test_the_same_request_gets_the_same_answer_from_the_next_server_too(
    database: Database,
) -> None:
    first, is_new = make(database, "k")
    assert is_new
    # The server died before it could answer: what it committed is all there is.
    other = Database(database.url)
    assert make(other, "k") == (first, False)
    other.close()
    assert count(database) == 1


def test_another_request_with_the_same_key_is_refused(database: Database) -> None:
    make(database, "k")
    with pytest.raises(InvalidInput, match="was used for another request"):
        make(database, "k", "bob")
    assert count(database) == 1
    assert make(database, "l", "bob")[1]


def test_without_a_key_nothing_is_kept(database: Database) -> None:
    make(database, None)
    with pytest.raises(Conflict):
        make(database, None)


def test_what_failed_can_be_tried_again_with_its_key(database: Database) -> None:
    make(database, None)
    with pytest.raises(Conflict):
        make(database, "k")
    assert make(database, "k", "bob")[1]


def test_who_else_uses_the_key_is_told_nothing(database: Database) -> None:
    make(database, "k")
    with acting_as(Identity("eve", Scope.ADMIN)), pytest.raises(Conflict):
        make(database, "k")


def test_of_two_at_once_the_second_gets_the_answer_of_the_first(database: Database) -> None:
    begun, found = threading.Event(), []

    def second() -> None:
        begun.wait(10)
        found.append(make(database, "k"))

    thread = threading.Thread(target=second)
    thread.start()
    with database.session() as session:
        once = Once("k", "POST /keys ann", NOW)

        def slow() -> KeyMade:
            begun.set()
            return keys.add(session, "ann", Scope.READ, 0)

        first, _ = once.answer(session, KeyMade, slow)
    thread.join(20)
    assert found == [(first, False)]


def test_an_answer_cannot_be_read_without_its_key(database: Database) -> None:
    key = str(uuid.uuid4())
    made, _ = make(database, key)
    with database.session() as session:
        [row] = session.execute(text("select * from kept_answers")).all()
    assert made.key not in str(row)
    assert key not in str(row)


def test_keys_expire(database: Database) -> None:
    make(database, "k")
    with database.session() as session:
        forget_answers(session, 1, NOW + 3599)
    assert not make(database, "k")[1]
    with database.session() as session:
        forget_answers(session, 1, NOW + 3601)
    assert make(database, "k", "bob")[1]


def test_a_body_of_which_nothing_is_read_may_hold_anything(plane: Plane) -> None:
    with client_of(plane) as client:
        for number, body in enumerate((b"{", b"\xff\xfe", b"9" * 5000, b"")):
            for key in ({}, {"Idempotency-Key": f"k{number}"}):
                headers = {"Content-Type": "application/json", **key}
                path = "/api/v1/datasets/none/rescan"
                answer = client.post(path, content=body, headers=headers)
                assert answer.status_code == 404, (body, key, answer.text)


def test_keys_expire_by_the_clock_that_they_are_kept_by(plane: Plane) -> None:
    async def body() -> bytes:
        return b"{}"

    state = SimpleNamespace(context=SimpleNamespace(dispatcher=plane.dispatcher))
    asked: Any = SimpleNamespace(
        body=body,
        method="POST",
        url=SimpleNamespace(path="/keys"),
        app=SimpleNamespace(state=state),
    )
    once = asyncio.run(get_once(asked, "k"))
    with plane.database.session() as session:
        once.answer(session, KeyMade, lambda: keys.add(session, "ann", Scope.READ, plane.now))
        forget_answers(session, 1, plane.now + 3601)
        assert once.known(session, KeyMade) is None
