"""The limits of a run: made with it, changed while it works, kept, and told."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from annotated_types import Ge, Le
from pydantic import ValidationError

from ddlp.core.errors import InvalidInput, NotFound
from ddlp.core.messages import LimitsChange, LimitsInfo, RoomInfo, RunCreate
from ddlp.core.settings import Settings
from ddlp.core.types import Prong, RunState
from ddlp.server import audit, limits
from ddlp.server.models import Run
from ddlp.server.windows import LIMITS
from tests.server.conftest import Plane
from tests.server.driving import ask, deliver, new_run, register, settle, work_off

MIB = 1 << 20
BATCH_BYTES = 4096 * (1 + 735 + 2)


def change(plane: Plane, run: uuid.UUID, **fields: Any) -> None:
    body = LimitsChange(**fields)
    ask(plane, lambda board, session, now: limits.change(board, session, run, body, now))


def info(plane: Plane, run: uuid.UUID) -> LimitsInfo:
    stored = ask(plane, lambda board, *_: limits.in_force(board, run))
    with plane.database.session() as session:
        return limits.info(plane.settings, session.get_one(Run, run), stored)


def make_all(plane: Plane) -> None:
    """Work off whatever is sent until nothing more comes."""
    settle(plane)
    while work_off(plane):
        settle(plane)


def stored(plane: Plane, run: uuid.UUID) -> int:
    found: int = ask(plane, lambda board, *_: board.run(run).schedule.epochs[0].stored(Prong.CPU))
    return found


def test_a_run_without_limits_of_its_own_has_those_of_the_server(
    plane: Plane, images: Path
) -> None:
    told = info(plane, new_run(plane, images))
    assert [getattr(told, name) for name in LIMITS] == [
        getattr(plane.settings, name) for name in LIMITS
    ]
    assert (told.own, told.batch_bytes) == ([], BATCH_BYTES)
    budget = 0.9 * plane.settings.csd_store_bytes
    assert told.batches == {"cpu": 128, "csd": int(budget) // BATCH_BYTES}


def test_a_run_is_made_with_limits_of_its_own(plane: Plane, images: Path) -> None:
    run = new_run(plane, images, cpu_window=3, csd_store_bytes=40 * MIB)
    told = info(plane, run)
    assert told.own == ["cpu_window", "csd_store_bytes"]
    assert told.batches == {"cpu": 3, "csd": int(0.9 * 40 * MIB) // BATCH_BYTES}


def test_a_window_that_grows_is_filled_and_one_that_shrinks_empties(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", cpu_window=2)
    make_all(plane)
    assert stored(plane, run) == 2
    change(plane, run, cpu_window=5)
    make_all(plane)
    assert stored(plane, run) == 5
    change(plane, run, cpu_window=1)
    make_all(plane)
    assert stored(plane, run) == 5, "what was made stays there until it is used"
    assert deliver(plane, run) == list(range(7))


def test_limits_are_kept_over_a_restart_and_written_down(either_plane: Plane, images: Path) -> None:
    plane = either_plane
    run = new_run(plane, images, name="r50")
    change(plane, run, cpu_window=9, csd_store_bytes=50 * MIB)
    change(plane, run, cpu_store_bytes=30 * MIB)
    before = info(plane, run)
    assert before.batches == {
        "cpu": int(0.9 * 30 * MIB) // BATCH_BYTES,
        "csd": int(0.9 * 50 * MIB) // BATCH_BYTES,
    }
    plane.restart()
    assert info(plane, run) == before
    with plane.database.session() as session:
        second, first = audit.page(session, subject="r50", action="run.limits")
    assert first.detail["old"] == {name: getattr(plane.settings, name) for name in LIMITS}
    assert first.detail["new"]["cpu_window"] == 9
    assert second.words == "limits changed: CPU store 1.1 GB → 31.5 MB"


def test_a_change_that_changes_nothing_is_not_written_down(plane: Plane, images: Path) -> None:
    run = new_run(plane, images, name="r50", cpu_window=4)
    change(plane, run, cpu_window=4)
    with plane.database.session() as session:
        assert audit.page(session, action="run.limits") == []
    with pytest.raises(InvalidInput, match="give at least one of cpu_window"):
        change(plane, run)


def test_the_limits_of_a_run_that_is_over_stay(plane: Plane, images: Path) -> None:
    run = new_run(plane, images, cpu_window=4)
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    with pytest.raises(NotFound):
        change(plane, run, cpu_window=5)
    told = info(plane, run)
    assert (told.cpu_window, told.batches) == (4, None)


def test_what_a_run_has_stored_itself_does_not_make_its_limits_smaller(
    plane: Plane, images: Path
) -> None:
    room = 20 * BATCH_BYTES
    incarnation = register(plane, Prong.CPU, room=RoomInfo(free_bytes=room))
    run = new_run(plane, images, strategy="cpu", cpu_window=4)
    make_all(plane)
    left = RoomInfo(free_bytes=room - 4 * BATCH_BYTES)
    register(plane, Prong.CPU, incarnation=incarnation, room=left)
    change(plane, run, cpu_window=100)
    told = info(plane, run)
    assert told.batches is not None
    assert told.batches["cpu"] == 10, "half of what is free, were nothing of it there"


def test_the_limits_of_a_run_whose_pipeline_is_gone_are_told(plane: Plane, images: Path) -> None:
    run = new_run(plane, images)
    with plane.database.session() as session:
        session.get_one(Run, run).transforms = [{"name": "gone"}]
    assert info(plane, run).batch_bytes is None


@pytest.mark.parametrize("message", [LimitsChange, RunCreate])
@pytest.mark.parametrize("name", LIMITS)
def test_a_run_may_have_the_limits_that_a_server_may_have(message: Any, name: str) -> None:
    needed = {"dataset": "fruit"} if message is RunCreate else {}
    bounds = Settings.model_fields[name].metadata
    least = next(bound.ge for bound in bounds if isinstance(bound, Ge))
    assert getattr(message(**needed, **{name: least}), name) == least
    with pytest.raises(ValidationError):
        message(**needed, **{name: int(str(least)) - 1})
    for bound in bounds:
        if isinstance(bound, Le):
            with pytest.raises(ValidationError):
                message(**needed, **{name: int(str(bound.le)) + 1})
