"""What is said of a child that ended at its start."""

import sys
from pathlib import Path

import pytest

from ddlp.cli.child import Child, last_words
from ddlp.core.errors import Unavailable
from tests.conftest import wait_until


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "it said nothing"),
        (["", " "], "it said nothing"),
        (["Traceback", "ValueError: 3"], "ValueError: 3"),
        (["ddlp: the database is away", "a late warning"], "the database is away"),
        (["ddlp: first", "ddlp: second"], "second"),
        (["DDLP serves http://127.0.0.1:1", "ddlp: it broke"], "it broke"),
        (
            ["DatabaseError: damaged", "(Background on this error at: url)"],
            "DatabaseError: damaged",
        ),
    ],
)
def test_the_line_that_says_why_is_found(lines: list[str], said: str) -> None:
    assert last_words(lines) == said


def ended(logs: Path, message: str) -> str:
    """What is said of a child that says something and ends."""
    child = Child("part", [sys.executable, "-c", f"print({message!r})"], logs, {})
    seen: list[str] = []

    def over() -> bool:
        try:
            child.check_started()
        except Unavailable as error:
            seen.append(str(error))
        return bool(seen)

    wait_until(over)
    return seen[0]


def test_what_an_earlier_child_said_is_not_said_again(tmp_path: Path) -> None:
    assert ended(tmp_path, "ddlp: old trouble").startswith(
        "the part part ended at its start: old trouble (log: "
    )
    assert ended(tmp_path, "new trouble").startswith(
        "the part part ended at its start: new trouble (log: "
    )
