"""Names that runs get by themselves: free, short enough, and counted on from a number."""

from pathlib import Path

import pytest

from ddlp.server import run_names
from tests.server.conftest import Plane
from tests.server.driving import new_run


@pytest.mark.parametrize(
    ("name", "following"),
    [
        ("r50", "r50-2"),
        ("r50-2", "r50-4"),
        ("r50-7", "r50-8"),
        ("other", "other-2"),
        ("-1", "-1-2"),
    ],
)
def test_a_number_is_counted_on_past_names_that_are_taken(
    plane: Plane, images: Path, name: str, following: str
) -> None:
    new_run(plane, images, name="r50-3")
    with plane.database.session() as session:
        assert run_names.following(session, name) == following


def test_a_long_name_is_cut_for_its_number(plane: Plane) -> None:
    with plane.database.session() as session:
        found = run_names.numbered(session, "x" * 64, first=100)
    assert found == "x" * 60 + "-100"


def test_names_are_taken_by_runs_alone(plane: Plane, images: Path) -> None:
    new_run(plane, images, name="mine")
    with plane.database.session() as session:
        assert run_names.is_taken(session, "mine")
        assert not run_names.is_taken(session, "fruit")
