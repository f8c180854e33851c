"""Runs that are over are deleted with all that they left; what somebody needs is refused."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, func, select, update

from ddlp.core.errors import Conflict, InvalidInput, NotFound
from ddlp.core.messages import Heartbeat, PipelineCreate, ReplayCreate
from ddlp.core.store import run_folder
from ddlp.core.types import Prong, RunState
from ddlp.server import audit, datasets, devices, pipelines, runs
from ddlp.server.models import Base, Epoch, Run
from ddlp.server.run_removal import delete_run
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    ask,
    certificate_of,
    deliver,
    feed,
    new_run,
    register,
    settle,
    state_of,
)


def completed(plane: Plane, images: Path, **fields: Any) -> uuid.UUID:
    run = new_run(plane, images, **{"name": "r50", "strategy": "cpu", **fields})
    deliver(plane, run)
    feed(plane, run, 7, 7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    return run


def delete(plane: Plane, run: uuid.UUID) -> str:
    name: str = ask(plane, lambda board, session, now: delete_run(board, session, run, now))
    return name


def rows_of(plane: Plane, run: uuid.UUID) -> dict[str, int]:
    """How many rows each table that knows runs has of one."""
    tables: list[Table] = [t for t in Base.metadata.sorted_tables if "run_id" in t.c]
    with plane.database.session() as session:
        return {
            table.name: session.scalar(select(func.count()).where(table.c.run_id == run)) or 0
            for table in tables
        }


def test_nothing_of_a_deleted_run_stays_but_the_audit(either_plane: Plane, images: Path) -> None:
    plane = either_plane
    register(plane, Prong.CPU)
    other = completed(plane, images, name="other")
    run = completed(plane, images)
    certificate_of(plane, run)
    assert rows_of(plane, run)["batches"] == rows_of(plane, other)["batches"] == 7
    kept = rows_of(plane, other)
    assert delete(plane, run) == "r50"
    assert set(rows_of(plane, run).values()) == {0}
    assert rows_of(plane, other) == kept
    with plane.database.session() as session:
        with pytest.raises(NotFound, match="there is no run r50"):
            runs.find(session, "r50")
        [event] = audit.page(session, subject="r50", action="run.delete")
        assert event.words == "deleted; it was completed, over dataset fruit"
        assert audit.page(session, subject="r50", action="run.create")
    with pytest.raises(NotFound, match="deleted meanwhile"):
        delete(plane, run)


def test_a_run_that_is_under_way_is_refused(plane: Plane, images: Path) -> None:
    run = new_run(plane, images, name="r50")
    for state in (RunState.RUNNING, RunState.PAUSED):
        plane.dispatcher.change_state(run, state).result(10)
        with pytest.raises(Conflict, match=rf"is {state} and cannot be .* ddlp run cancel r50"):
            delete(plane, run)
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    delete(plane, run)


def test_its_batches_are_cleared_out_of_stores_here_and_elsewhere(
    plane: Plane, images: Path
) -> None:
    store = plane.settings.home / "cpu"
    store.mkdir(parents=True)
    me = register(plane, Prong.CPU)
    run = completed(plane, images)
    settle(plane)  # what it left is cleared away once its end is written
    left = store / run_folder(run) / "left"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"batch")
    delete(plane, run)
    assert not left.parent.exists()
    stranger = uuid.uuid4()
    body = Heartbeat(incarnation=me, stored={run: 1.0, stranger: 1.0})
    orders = ask(plane, lambda board, s, now: devices.heartbeat(board, s, "cpu", body, now))
    assert orders.over == [run], "what is not known may be another server's"


def test_what_is_being_replayed_is_refused(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = completed(plane, images)
    with plane.database.session() as session:
        row = runs.create_replay(session, "r50", ReplayCreate(name="again"))
    ask(plane, lambda board, session, _: board.add_run(session, row))
    with pytest.raises(Conflict, match="is being replayed by again"):
        delete(plane, run)
    plane.dispatcher.change_state(row.id, RunState.CANCELLED).result(10)
    delete(plane, run)


def test_what_the_proof_of_another_run_needs_is_refused(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = completed(plane, images)
    later = completed(plane, images, name="later")
    with plane.database.session() as session:
        session.execute(update(Epoch).where(Epoch.run_id == later).values(origin={"run": str(run)}))
    with pytest.raises(Conflict, match=r"run later went on from .* ddlp run delete later"):
        delete(plane, run)
    delete(plane, later)
    delete(plane, run)


def test_a_dataset_with_runs_is_refused_unless_they_are_kept_without_it(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = completed(plane, images)
    with (
        pytest.raises(Conflict, match="there are runs of dataset fruit: r50; delete them first"),
        plane.database.session() as session,
    ):
        datasets.remove(session, plane.settings, "fruit")
    with plane.database.session() as session:
        datasets.remove(session, plane.settings, "fruit", keep_runs=True)
    with plane.database.session() as session:
        assert session.get_one(Run, run).dataset_id is None


def test_a_dataset_whose_runs_were_deleted_goes(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    delete(plane, completed(plane, images))
    with plane.database.session() as session:
        datasets.remove(session, plane.settings, "fruit")


def test_of_many_runs_the_newest_are_named(plane: Plane, images: Path) -> None:
    for number in range(12):
        run = new_run(plane, images, name=f"r{number}")
        plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    with (
        pytest.raises(Conflict, match=r"r11, r10, .*, r2 and 2 more;"),
        plane.database.session() as s,
    ):
        datasets.remove(s, plane.settings, "fruit")


def test_a_pipeline_goes_once_there_is_no_run_with_it(plane: Plane, images: Path) -> None:
    added = PipelineCreate(name="tiny", transforms=[{"name": "centre-crop", "size": 8}])
    with plane.database.session() as session:
        pipelines.add(session, added)
    run = new_run(plane, images, name="r50", pipeline="tiny")
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    with (
        pytest.raises(Conflict, match="there are runs with pipeline tiny: r50"),
        plane.database.session() as session,
    ):
        pipelines.delete(session, "tiny")
    delete(plane, run)
    with plane.database.session() as session:
        pipelines.delete(session, "tiny")
        with pytest.raises(NotFound, match="there is no pipeline tiny; known: imagenet-train"):
            pipelines.delete(session, "tiny")
        with pytest.raises(InvalidInput, match="imagenet-train comes with DDLP"):
            pipelines.delete(session, "imagenet-train")
        assert [e.words[:8] for e in audit.page(session, action="pipeline.delete")] == ["deleted;"]
