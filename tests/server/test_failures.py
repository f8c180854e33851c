"""A failure is told in the same words and with the same status, wherever a request meets it."""

import errno
from typing import cast

import pytest
from fastapi import Request
from sqlalchemy import exc

from ddlp.core.errors import DdlpError
from ddlp.server import database, problems
from tests.server.conftest import Plane
from tests.server.driving import ask

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
