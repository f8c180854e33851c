"""A failure is told in the same words and with the same status, wherever a request meets it."""

import errno
from typing import Any, cast

import pytest
from fastapi import Request
from sqlalchemy import exc

from ddlp.core.errors import DdlpError
from ddlp.server import database, problems
from tests.server.conftest import Plane
from tests.server.driving import ask, hold

CAUSE = Exception("the database's own words")
MET: list[tuple[Exception, int]] = [
    (exc.IntegrityError("SELECT 1", {}, CAUSE), 422),
    (exc.DataError("SELECT 1", {}, CAUSE), 422),
    (OverflowError("int too large"), 422),
    (exc.OperationalError("SELECT 1", {}, CAUSE), 503),
    (exc.InterfaceError("SELECT 1", {}, CAUSE), 503),
    (exc.InternalError("SELECT 1", {}, CAUSE), 503),
    (exc.DatabaseError("SELECT 1", {}, CAUSE), 503),
    (exc.TimeoutError("the pool is empty"), 503),
    (OSError(errno.EMFILE, "Too many open files"), 503),
    (exc.ProgrammingError("SELECT 1", {}, CAUSE), 500),
    (exc.NoResultFound("a secret value"), 500),
    (PermissionError(errno.EACCES, "Permission denied", "/a secret place"), 500),
    (KeyError("a secret value"), 500),
]


@pytest.mark.parametrize(("met", "status"), MET, ids=lambda value: type(value).__name__)
def test_a_route_and_the_dispatcher_tell_the_same(
    plane: Plane, met: Exception, status: int
) -> None:
    def fail(*_: object) -> None:
        raise met

    with pytest.raises(DdlpError) as refused:
        ask(plane, fail)
    of_route = problems.error_of(cast("Request", None), met)
    assert (type(refused.value), str(refused.value)) == (type(of_route), str(of_route))
    assert of_route.status == status
    assert "secret" not in str(of_route)
    assert "SELECT" not in str(of_route)
    assert ask(plane, lambda *_: "alive") == "alive"


@pytest.mark.parametrize("met", [met for met, _ in MET], ids=lambda met: type(met).__name__)
def test_what_is_waited_for_is_what_is_told_as_away(met: Exception) -> None:
    assert not (database.is_down(met) and database.is_refusal(met))
    if isinstance(met, database.AWAY):
        assert database.is_down(met)


def test_an_error_with_nobody_to_blame_is_told_to_those_who_wait(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[int] = []
    broken = [True]
    load, advance = plane.dispatcher._load, plane.dispatcher._advance

    def count() -> None:
        loads.append(1)
        load()

    def fail(*args: Any) -> Any:
        if broken and args:
            raise KeyError("a secret value")
        return advance(*args)

    go_on = hold(plane)
    monkeypatch.setattr(plane.dispatcher, "_load", count)
    answers = [plane.dispatcher.call(lambda *_: None) for _ in range(20)]
    monkeypatch.setattr(plane.dispatcher, "_advance", fail)
    go_on()
    for answer in answers:
        with pytest.raises(DdlpError, match=r"did not expect \(KeyError\)"):
            answer.result(20)
    assert len(loads) < 10, "the requests are not searched one after the other for the one to blame"
    broken.clear()
    assert ask(plane, lambda *_: "alive") == "alive"
