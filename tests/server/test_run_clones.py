"""A clone has the settings of its source, but for what is asked to differ."""

from pathlib import Path
from typing import Any

import pytest

from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.messages import RunClone
from ddlp.core.types import RunState
from ddlp.server import audit, run_clones
from ddlp.server.models import Run
from ddlp.server.runs import _COPIED
from tests.server.conftest import Plane
from tests.server.driving import new_run

OWN = {
    "epochs": 3,
    "seed": 9,
    "strategy": "bounded",
    "reorder_window": 4,
    "world_size": 2,
    "on_bad": "skip",
    "reshuffle": False,
    "cpu_window": 7,
}


def clone(plane: Plane, ref: str, **fields: Any) -> Run:
    with plane.database.session() as session:
        return run_clones.create_clone(session, ref, RunClone(**fields))


@pytest.mark.parametrize("over", [True, False])
def test_all_settings_are_copied(plane: Plane, images: Path, over: bool) -> None:
    run = new_run(plane, images, name="r50-1", **OWN)
    if over:
        plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    row = clone(plane, "r50-1")
    with plane.database.session() as session:
        source = session.get_one(Run, run)
        for name in (*_COPIED, "strategy", "reorder_window"):
            assert getattr(row, name) == getattr(source, name), name
        [event] = audit.page(session, subject=row.name, action="run.create")
    assert event.words.startswith("cloned from r50-1: made from dataset fruit")
    assert (row.name, row.state) == ("r50-2", RunState.CREATED.value)
    assert (row.retry_of, row.replay_of) == (None, None)


def test_what_is_given_differs(plane: Plane, images: Path) -> None:
    new_run(plane, images, name="r50", **OWN)
    row = clone(plane, "r50", name="longer", epochs=None, seed=1, strategy="wrr", world_size=None)
    assert (row.name, row.epochs, row.seed, row.strategy) == ("longer", None, 1, "wrr")
    assert (row.reorder_window, row.fixed_ranks, row.world_size) == (None, False, 1)
    assert row.on_bad == "skip"
    with pytest.raises(InvalidInput, match="batch size 500 is larger"):
        clone(plane, "r50", batch_size=500)
    with pytest.raises(Conflict, match="there is a run longer already"):
        clone(plane, "r50", name="longer")


def test_ranks_that_came_from_trainers_are_left_to_trainers(plane: Plane, images: Path) -> None:
    run = new_run(plane, images, name="r50")
    with plane.database.session() as session:
        session.get_one(Run, run).world_size = 4
    assert (clone(plane, "r50").world_size, clone(plane, "r50").fixed_ranks) == (1, False)


def test_a_replay_is_no_setting(plane: Plane, images: Path) -> None:
    run = new_run(plane, images, name="r50")
    with plane.database.session() as session:
        session.get_one(Run, run).strategy = "replay"
    with pytest.raises(Conflict, match="ddlp run clone r50 --strategy wrr"):
        clone(plane, "r50")
    assert clone(plane, "r50", strategy="wrr").strategy == "wrr"
