"""One tree of errors, and the way back from an HTTP status to an error of it."""

import re

import pytest

from ddlp.core import errors
from ddlp.core.errors import DdlpError, from_status
from ddlp.core.exit_codes import ExitCode


def below(kind: type[DdlpError]) -> list[type[DdlpError]]:
    public = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    return [kind, *(found for child in public for found in below(child))]


TREE = below(DdlpError)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.Malformed),
        (403, errors.NotAllowed),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (405, errors.WrongMethod),
        (408, errors.TooSlow),
        (413, errors.TooLarge),
        (415, errors.Unsupported),
        (422, errors.InvalidInput),
        (429, errors.TooMany),
        (431, errors.HeadTooLarge),
        (500, DdlpError),
        (502, DdlpError),
        (503, errors.Unavailable),
        (504, errors.WaitTimeout),
    ],
)
def test_a_status_becomes_its_error_with_the_message(status: int, kind: type[DdlpError]) -> None:
    error = from_status(status, "the reason")
    assert type(error) is kind
    assert str(error) == "the reason"


@pytest.mark.parametrize("kind", TREE)
def test_an_error_that_crosses_http_keeps_its_status(kind: type[DdlpError]) -> None:
    assert from_status(kind.status, "x").status == kind.status


def test_a_refusal_comes_back_as_the_conflict_that_it_is() -> None:
    assert type(from_status(errors.Refused.status, "x")) is errors.Conflict


@pytest.mark.parametrize("kind", TREE)
def test_every_error_stands_in_the_drawing_of_the_tree(kind: type[DdlpError]) -> None:
    assert errors.__doc__ is not None
    named = re.compile(rf"\b{kind.__name__}\b")
    line = next(line for line in errors.__doc__.splitlines() if named.search(line))
    drawn = re.search(r"(\d{3})", line)
    if drawn:
        assert int(drawn[1]) == kind.status
    exit_code = re.search(r"exit (\d)", line)
    if exit_code:
        assert int(exit_code[1]) == kind.exit_code


def test_the_exit_codes_tell_mistakes_from_absence_and_from_waiting() -> None:
    codes = {kind.__name__: kind.exit_code for kind in TREE}
    assert codes["InvalidInput"] == codes["Unsupported"] == 2
    assert codes["Unavailable"] == 3
    assert codes["WaitTimeout"] == 4
    assert codes["DdlpError"] == codes["DamagedBatch"] == 1
    assert codes["NotFound"] == 5
    assert codes["Conflict"] == codes["Refused"] == 6
    assert codes["NotAllowed"] == codes["KeyRefused"] == 7
    assert {kind.exit_code for kind in TREE} <= set(ExitCode)
    assert all(code.meaning for code in ExitCode)
