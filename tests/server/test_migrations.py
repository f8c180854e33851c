"""Databases of earlier versions are brought up to this one with what is in them."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Engine, text

from ddlp.core.types import Prong, RunState
from ddlp.server import datasets, figures, quarantine, runs
from ddlp.server.database import Database, alembic_config, migrate
from ddlp.server.models import Epoch
from tests.server.conftest import Plane
from tests.server.driving import deliver, feed, new_run, register

RUN = """
insert into runs (id, name, dataset_id, dataset, dataset_version, pipeline, pipeline_hash,
transforms, engine, engines, samples, batch_size, epochs, seed, strategy, world_size, on_bad,
max_bad_share, state, reason, created_at, started_at, ended_at)
values (:id, :name, null, 'fruit', 'd', 'p', 'h', '[]', 'fused-2', 'fused-2', 100, 10, 2, 0, 'mte',
1, 'skip', 0.01, :state, null, 10, 11, :ended_at)
"""
EPOCH = "insert into epochs values (:id, 0, 'complete', 10, 7, 7, 7, 7, 3, 10, 11, 20)"
BATCH = """
insert into batches values (:id, 0, 0, 'consumed', 'cpu', 1, 1, 0, 0, 'cpu', 11, 12, 13, null, 1,
'00', 1, 1, 10, 1, 0, 0, 14, null)
"""
BAD = """
insert into bad_samples (run_id, epoch, batch, sample, name, reason, substitute)
values (:id, 0, 0, 3, 'a.jpg', 'truncated', null)
"""
ROLLUP = """
insert into rollups (run_id, at, period_s, source, batches, images, nbytes, busy_s, cpu_s, joules,
waited_s, trained_s) values (:id, 11, 1, 'cpu', 1, 10, 1, 1, 1, 1, 0, 0)
"""
TOTAL = "insert into run_totals values (:id, 'cpu', 11, 12, 100, 5, 0, 0, :no)"


@pytest.fixture
def old(engine: Engine) -> Iterator[Database]:
    """A database of the first version, with a run in each state and all that belongs to it."""
    command.upgrade(alembic_config(engine), "0001")
    url = engine.url.render_as_string(hide_password=False)
    database = Database(url)
    with database.session() as session:
        for state in RunState:
            over = state.value in ("completed", "failed", "cancelled")
            run = uuid.uuid4() if engine.dialect.name == "postgresql" else uuid.uuid4().hex
            given = {"id": run, "name": state.value, "state": state.value}
            session.execute(text(RUN), {**given, "ended_at": 20 if over else None})
            for statement in (EPOCH, BATCH, BAD, ROLLUP, TOTAL):
                session.execute(text(statement), {"id": run, "no": False})
    yield database
    database.close()


def test_runs_that_are_over_survive_and_others_are_ended(old: Database) -> None:
    migrate(old.engine)
    with old.session() as session:
        found = {state.value: runs.find(session, state.value) for state in RunState}
        for state in ("completed", "failed", "cancelled"):
            assert (found[state].state, found[state].ended_at) == (state, 20)
        for state in ("created", "running", "paused"):
            assert found[state].state == "cancelled"
            assert found[state].reason == "it was under way during an upgrade"
            assert (found[state].ended_at or 0) > 20
        assert {row.tail for row in found.values()} == {"short"}
        assert {row.calibration for row in found.values()} == {10}


@pytest.mark.parametrize("steps", [["head"], ["head", "0001", "head"]])
def test_what_belongs_to_runs_is_kept_apart_from_their_epochs(
    old: Database, steps: list[str]
) -> None:
    for revision in steps:
        go = command.downgrade if revision == "0001" else command.upgrade
        go(alembic_config(old.engine), revision)
    with old.session() as session:
        row = runs.find(session, "completed")
        assert [entry.name for entry in quarantine.page(session, row, None, 10)] == ["a.jpg"]
        assert figures.totals(session, [row.id])[row.id]["cpu"].images == 100
        assert figures.series(session, row.id, 10)["cpu"]["images_per_s"] == [10.0]
        assert session.query(Epoch).count() == 0
        assert runs.info(session, row).state is RunState.COMPLETED


def test_references_are_still_checked_after_an_upgrade(old: Database) -> None:
    migrate(old.engine)
    if old.engine.dialect.name == "sqlite":
        with old.engine.connect() as connection:
            assert connection.scalar(text("pragma foreign_keys")) == 1
            assert connection.execute(text("pragma foreign_key_check")).all() == []
    with old.session() as session:
        session.execute(text("delete from runs where name = 'completed'"))
    with old.session() as session:
        assert session.scalar(text("select count(*) from bad_samples")) == len(RunState) - 1


def test_which_prong_made_what_was_consumed_is_found_out_again(
    either_plane: Plane, images: Path
) -> None:
    plane = either_plane
    for prong in Prong:
        register(plane, prong)
    run = new_run(plane, images, batch_size=10)
    deliver(plane, run, stop=5)
    feed(plane, run, 5, 5)
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)

    def delivered() -> dict[str, int]:
        with plane.database.session() as session:
            return runs.epochs(session, runs.find(session, str(run)))[0].delivered

    before = delivered()
    assert sum(before.values()) == 5
    assert before["csd"] > 0
    command.downgrade(alembic_config(plane.database.engine), "0005")
    migrate(plane.database.engine)
    assert delivered() == before


def test_earlier_versions_of_datasets_do_not_outlive_a_downgrade(
    either_plane: Plane, images: Path
) -> None:
    plane = either_plane
    run = new_run(plane, images, batch_size=10)
    with plane.database.session() as session:
        datasets.find(session, "fruit").name = "fruit@" + "0" * 8
    command.downgrade(alembic_config(plane.database.engine), "0007")
    migrate(plane.database.engine)
    with plane.database.session() as session:
        assert datasets.list_all(session, every=True) == []
        assert runs.find(session, str(run)).dataset_id is None
    plane.add_dataset(images, "f" * 64)
    with plane.database.session() as session:
        row = datasets.find(session, "f" * 64)
        row.name, row.rescan = f"{row.name}@{'0' * 8}", {"state": "unchanged"}
