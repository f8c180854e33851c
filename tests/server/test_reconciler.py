"""Runs whose work stopped for a reason that nobody reports are continued or failed."""

import uuid
from pathlib import Path

import pytest
from sqlalchemy import update

from ddlp.core.messages import RunCreate
from ddlp.core.types import Prong, RunState
from ddlp.server import reconciler, runs
from ddlp.server.models import Run
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    ask,
    deliver,
    feed,
    new_run,
    pass_time,
    reason_of,
    register,
    settle,
    state_of,
    take_sent,
)


def reconcile(plane: Plane) -> None:
    """Let the reconciler have its turn."""
    pass_time(plane, reconciler.PERIOD_S + 1)


def active(plane: Plane) -> set[uuid.UUID]:
    found: set[uuid.UUID] = ask(plane, lambda board, *_: set(board.runs))
    return found


def write_run(plane: Plane, images: Path) -> Run:
    """A run in the database of which the dispatcher was never told."""
    plane.add_dataset(images, "fruit")
    with plane.database.session() as session:
        return runs.create(session, RunCreate(dataset="fruit", batch_size=20, strategy="cpu"))


def test_a_run_that_was_only_written_is_taken_up(either_plane: Plane, images: Path) -> None:
    register(either_plane, Prong.CPU)
    row = write_run(either_plane, images)
    assert active(either_plane) == set()
    reconcile(either_plane)
    assert active(either_plane) == {row.id}
    assert deliver(either_plane, row.id) == list(range(7))


def test_a_run_that_is_taken_up_twice_stays_one(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    row = write_run(plane, images)
    reconcile(plane)
    before = {lease.token for _, lease in take_sent(plane)}
    ask(plane, lambda board, session, now: board.add_run(session, row))
    register(plane, Prong.CPU)
    settle(plane)
    assert max(before) < min(lease.token for _, lease in take_sent(plane))


def test_a_run_that_cannot_be_taken_up_has_failed(plane: Plane, images: Path) -> None:
    row = write_run(plane, images)
    set_run(plane, row.id, strategy="gone")
    reconcile(plane)
    assert state_of(plane, row.id) is RunState.FAILED
    assert "it cannot be taken up: there is no strategy 'gone'" in reason_of(plane, row.id)


def set_run(plane: Plane, run: uuid.UUID, **values: object) -> None:
    with plane.database.session() as session:
        session.execute(update(Run).where(Run.id == run).values(**values))


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
def test_a_run_that_is_over_elsewhere_leaves_and_stays_as_it_is(
    either_plane: Plane, images: Path, state: str
) -> None:
    register(either_plane, Prong.CPU)
    run = new_run(either_plane, images, strategy="cpu")
    set_run(either_plane, run, state=state, reason="said by another")
    reconcile(either_plane)
    assert active(either_plane) == set()
    assert (state_of(either_plane, run), reason_of(either_plane, run)) == (state, "said by another")


DAY_S = 24 * 3600.0


@pytest.fixture
def impatient(plane: Plane) -> Plane:
    """A server that gives up runs which no trainer comes back to for a day."""
    plane.settings = plane.settings.model_copy(update={"abandon_after_s": DAY_S})
    plane.restart()
    return plane


def test_a_run_waits_for_its_trainers_for_ever_unless_told_otherwise(
    plane: Plane, images: Path
) -> None:
    runs = [new_run(plane, images, strategy="cpu") for _ in range(2)]
    feed(plane, runs[0], 0, 0)
    for _ in range(3):
        plane.now += 300 * DAY_S
        reconcile(plane)
    assert [state_of(plane, run) for run in runs] == [RunState.PAUSED, RunState.CREATED]
    assert "the run resumes when one connects" in reason_of(plane, runs[0])
    feed(plane, runs[0], 0, 0)
    settle(plane)
    assert state_of(plane, runs[0]) is RunState.RUNNING


def test_a_run_of_which_no_trainer_asks_has_failed(impatient: Plane, images: Path) -> None:
    plane = impatient
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    feed(plane, run, 0, 0)
    reconcile(plane)
    plane.now += DAY_S - 20
    reconcile(plane)
    assert state_of(plane, run) is RunState.PAUSED
    plane.now += 20
    reconcile(plane)
    assert state_of(plane, run) is RunState.FAILED
    assert "no trainer was heard of for 24.0 h" in reason_of(plane, run)
    assert active(plane) == set()


def test_a_run_that_no_trainer_ever_joined_has_failed_in_the_end(
    impatient: Plane, images: Path
) -> None:
    plane = impatient
    run = new_run(plane, images, strategy="cpu")
    reconcile(plane)
    plane.now += DAY_S
    reconcile(plane)
    assert state_of(plane, run) is RunState.FAILED


def test_a_trainer_that_asks_keeps_its_run(impatient: Plane, images: Path) -> None:
    plane = impatient
    run = new_run(plane, images, strategy="cpu")
    reconcile(plane)
    for _ in range(3):
        plane.now += DAY_S - 100
        feed(plane, run, 0, 0)
        reconcile(plane)
    assert state_of(plane, run) is RunState.RUNNING


def test_a_paused_run_may_wait_for_ever_and_is_given_time_when_resumed(
    impatient: Plane, images: Path
) -> None:
    plane = impatient
    run = new_run(plane, images, strategy="cpu")
    feed(plane, run, 0, 0)
    plane.dispatcher.change_state(run, RunState.PAUSED).result(10)
    for _ in range(3):
        plane.now += DAY_S
        reconcile(plane)
    assert state_of(plane, run) is RunState.PAUSED
    plane.dispatcher.change_state(run, RunState.RUNNING).result(10)
    reconcile(plane)
    assert state_of(plane, run) is RunState.RUNNING


def test_a_run_whose_dataset_is_gone_has_failed(plane: Plane, images: Path) -> None:
    run = new_run(plane, images, strategy="cpu")
    set_run(plane, run, dataset_id=None)
    reconcile(plane)
    assert state_of(plane, run) is RunState.FAILED
    assert reason_of(plane, run) == "dataset fruit was removed"


def test_a_run_that_ended_is_never_ended_again(impatient: Plane, images: Path) -> None:
    plane = impatient
    run = new_run(plane, images, strategy="cpu")
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    plane.now += 2 * DAY_S
    reconcile(plane)
    plane.restart()
    wait_until(lambda: active(plane) == set())
    assert (state_of(plane, run), reason_of(plane, run)) == (RunState.CANCELLED, "")
