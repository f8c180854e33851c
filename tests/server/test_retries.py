"""A run that failed or was cancelled is tried again as a new one, if it still can be the same."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from ddlp.core.errors import Conflict, NotFound
from ddlp.core.messages import RetryCreate
from ddlp.core.types import Prong, RunState
from ddlp.server import audit, retries
from ddlp.server.models import Dataset, Run
from ddlp.server.runs import _COPIED
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import ask, deliver, feed, new_run, register, state_of

OWN = {"cpu_window": 7, "cpu_store_bytes": 1 << 21, "csd_store_bytes": 1 << 22}


def cancelled(plane: Plane, images: Path, **fields: Any) -> uuid.UUID:
    """A run that was begun and cancelled."""
    run = new_run(plane, images, **{"name": "r50", **fields})
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    return run


def retry(plane: Plane, ref: str, name: str | None = None) -> Run:
    with plane.database.session() as session:
        row = retries.create_retry(session, ref, RetryCreate(name=name))
    ask(plane, lambda board, session, now: board.add_run(session, row))
    return row


def test_all_that_decides_a_run_is_copied_and_the_old_one_stays_as_it_was(
    either_plane: Plane, images: Path
) -> None:
    plane = either_plane
    register(plane, Prong.CPU)
    old = cancelled(
        plane, images, strategy="bounded", reorder_window=3, seed=9, epochs=2, on_bad="skip", **OWN
    )
    row = retry(plane, "r50")
    with plane.database.session() as session:
        before = session.get_one(Run, old)
        for name in (*_COPIED, "strategy", "reorder_window", "replay_of", "engine"):
            assert getattr(row, name) == getattr(before, name), name
        assert before.state == RunState.CANCELLED.value
        [event] = audit.page(session, subject="r50-2", action="run.retry")
    assert (row.name, row.retry_of, row.state) == ("r50-2", old, RunState.CREATED.value)
    assert event.words == "made to try r50 again"
    limits = ask(plane, lambda board, *_: board.run(row.id).schedule.limits)
    assert limits.stored[Prong.CPU] <= 7
    assert sorted(deliver(plane, row.id)) == list(range(7))


def test_attempts_are_numbered_from_the_first_name(plane: Plane, images: Path) -> None:
    cancelled(plane, images)
    names = []
    ref = "r50"
    for _ in range(3):
        row = retry(plane, ref)
        plane.dispatcher.change_state(row.id, RunState.CANCELLED).result(10)
        ref = row.name
        names.append(ref)
    assert names == ["r50-2", "r50-3", "r50-4"]
    assert retry(plane, "r50", name="other").name == "other"
    with pytest.raises(Conflict, match="there is a run r50-3 already"):
        retry(plane, "r50", name="r50-3")


def test_a_number_that_belongs_to_the_name_is_kept(plane: Plane, images: Path) -> None:
    cancelled(plane, images, name="try-7")
    assert retry(plane, "try-7").name == "try-7-2"


def test_a_long_name_is_cut_so_that_its_number_fits(plane: Plane, images: Path) -> None:
    cancelled(plane, images, name="x" * 64)
    row = retry(plane, "x" * 64)
    assert row.name == "x" * 62 + "-2"


def test_an_active_run_is_waited_for_and_a_completed_one_needs_no_retry(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, name="r50", strategy="cpu")
    with pytest.raises(Conflict, match=r"is created; wait .* ddlp run cancel r50"):
        retry(plane, "r50")
    deliver(plane, run)
    feed(plane, run, 7, 7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    with pytest.raises(
        Conflict, match=r"was completed.*run clone r50.*run extend r50 --epochs 2.*ddlp replay r50"
    ):
        retry(plane, "r50")


def test_a_dataset_that_was_removed_is_said_to_be(plane: Plane, images: Path) -> None:
    cancelled(plane, images)
    with plane.database.session() as session:
        session.execute(delete(Dataset))
    with pytest.raises(NotFound, match="dataset fruit of run r50 was removed; add it again"):
        retry(plane, "r50")
    plane.add_dataset(images, "fruit")
    assert retry(plane, "r50").dataset_id is not None, "the same images, added anew, will do"


def test_a_dataset_of_another_version_is_refused(plane: Plane, images: Path) -> None:
    cancelled(plane, images)
    with plane.database.session() as session:
        session.execute(update(Dataset).values(version="f" * 64))
    with pytest.raises(Conflict, match=r"has another version now \(ffffffffffff, not .*run create"):
        retry(plane, "r50")


def test_a_pipeline_that_makes_other_bytes_by_now_is_refused(plane: Plane, images: Path) -> None:
    old = cancelled(plane, images)
    with plane.database.session() as session:
        session.get_one(Run, old).pipeline_hash = "e" * 64
    with pytest.raises(Conflict, match="makes other bytes in this version"):
        retry(plane, "r50")
