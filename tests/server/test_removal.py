"""A dataset is removed at the very moment a run is made of it, on SQLite and on PostgreSQL."""

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from ddlp.core.errors import Conflict, NotFound
from ddlp.core.messages import RunCreate
from ddlp.core.settings import Settings
from ddlp.core.types import DatasetState
from ddlp.server import datasets, pipelines, runs
from ddlp.server.database import Database, migrate
from ddlp.server.models import Dataset

SETTINGS = Settings()
RUN = RunCreate(dataset="fruit", name="r", batch_size=2)


@pytest.fixture
def database(engine: Engine) -> Iterator[Database]:
    """A database that knows one dataset."""
    migrate(engine)
    found = Database(engine.url.render_as_string(hide_password=False))
    ready = {"state": DatasetState.READY.value, "version": "d" * 64, "samples": 10}
    place = {"uri": "/data/fruit", "check": "quick", "index_path": "/nowhere"}
    with found.session() as session:
        session.add(Dataset(id=uuid.uuid4(), name="fruit", created_at=0.0, **ready, **place))
    yield found
    found.close()


def remove(database: Database) -> None:
    with database.session() as session:
        datasets.remove(session, SETTINGS, "fruit")


def test_a_run_whose_dataset_goes_while_it_is_made_is_told_so(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = pipelines.find

    def find_and_lose(session, name):  # type: ignore[no-untyped-def]
        remove(database)
        return find(session, name)

    monkeypatch.setattr(pipelines, "find", find_and_lose)
    with (
        pytest.raises(NotFound, match="dataset fruit was removed meanwhile"),
        database.session() as session,
    ):
        runs.create(session, RUN)


def test_a_dataset_stays_if_a_run_of_it_is_being_made(database: Database) -> None:
    with ThreadPoolExecutor(1) as pool:
        with database.session() as session:
            runs.create(session, RUN)
            removal = pool.submit(remove, database)
            time.sleep(0.5)
            assert not removal.done(), "it waits for the run to be made, or not to be"
        with pytest.raises(Conflict, match="dataset fruit is used by r"):
            removal.result(20)
    with database.session() as session:
        assert runs.find(session, "r").dataset_id == datasets.find(session, "fruit").id


def test_of_two_removals_one_comes_too_late(database: Database) -> None:
    with ThreadPoolExecutor(1) as pool:
        with database.session() as session:
            datasets.remove(session, SETTINGS, "fruit")
            removal = pool.submit(remove, database)
            time.sleep(0.5)
        with pytest.raises(NotFound, match="dataset fruit"):
            removal.result(20)


def test_a_name_that_is_taken_is_another_matter(database: Database) -> None:
    with database.session() as session:
        runs.create(session, RUN)
    with pytest.raises(Conflict, match="there is a run r already"), database.session() as session:
        runs.create(session, RUN)
