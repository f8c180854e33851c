"""What a run would come to: from what runs have shown, and never from anything else."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select

from ddlp.core.energy import PowerModel
from ddlp.core.messages import PipelineCreate, RoomInfo
from ddlp.core.messages.outlook import RunForecast
from ddlp.core.types import Prong, Provenance
from ddlp.server import datasets, outlooks, pipelines
from ddlp.server.models import Calibration, Device, Run
from ddlp.server.routes import outlooks as route
from tests.conftest import SMALL_PIPELINE, make_images
from tests.server.conftest import Plane
from tests.server.driving import register
from tests.server.test_reports import finished

UNKNOWN = "no device has made enough batches of this pipeline; the first run will tell"


@pytest.fixture
def fruit(plane: Plane, images: Path) -> Plane:
    """A plane with a dataset, a pipeline of its own, and a device of each prong."""
    plane.add_dataset(images, "fruit")
    with plane.database.session() as session:
        pipelines.add(session, PipelineCreate(name="small", **SMALL_PIPELINE))
    register(plane, Prong.CPU, slots=4)
    register(plane, Prong.CSD, power=PowerModel(active_w=None, source="nobody"))
    return plane


def foretell(plane: Plane, **fields: Any) -> RunForecast:
    body = {"dataset": "fruit", "pipeline": "small", "batch_size": 20, **fields}
    with plane.database.session() as session:
        return outlooks.forecast(session, plane.settings, body, plane.now)


def remember(plane: Plane, device: str, sample_s: float, **fields: str) -> None:
    """A pace as an earlier run would have left it."""
    with plane.database.session() as session:
        usual = {"pipeline_hash": pipelines.find(session, "small").hash, "storage": "folder"}
        row = Calibration(
            **{"dataset_version": _version(plane), **usual, **fields},
            device=device,
            prong=device,
            batches=10,
            sample_s=sample_s,
            updated_at=plane.now,
        )
        session.merge(row)


def _version(plane: Plane) -> str:
    with plane.database.session() as session:
        return datasets.find(session, "fruit").version


def trained(plane: Plane, images: Path, **fields: Any) -> None:
    """A run of the CPU prong from its beginning to its end; time has passed, its device lives."""
    finished(plane, images, strategy="cpu", pipeline="small", calibration=1, **fields)
    register(plane, Prong.CPU, slots=4)


def problems(found: RunForecast) -> dict[str, str]:
    return {entry.field: entry.problem for entry in found.problems}


def test_where_nobody_made_such_batches_nothing_is_claimed(fruit: Plane) -> None:
    found = foretell(fruit)
    assert found.problems == []
    assert (found.batches, found.images) == (7, 123)
    assert found.images_per_s is found.epoch_s is found.joules is found.meeting_point is None
    assert found.provenance is Provenance.UNAVAILABLE
    assert [note for note in found.notes if UNKNOWN in note] == found.notes


def test_remembered_paces_times_live_slots_are_the_forecast(fruit: Plane) -> None:
    remember(fruit, "cpu", 0.04)
    remember(fruit, "csd", 0.1)
    found = foretell(fruit, epochs=3)
    assert [prong.images_per_s for prong in found.prongs] == pytest.approx([100, 10])
    assert [prong.known_from for prong in found.prongs] == [["this dataset and pipeline"]] * 2
    assert found.images_per_s == pytest.approx(110)
    assert found.meeting_point == 6
    assert found.run_s == pytest.approx(3 * 123 / 110)
    cpu, csd = found.prongs
    assert cpu.joules_per_image == pytest.approx(0.4)
    assert (csd.joules_per_image, csd.provenance) == (None, Provenance.UNAVAILABLE)
    assert found.joules is None, "a part that is not known leaves the whole unknown"
    assert any("assumes that the trainer keeps up" in note for note in found.notes)
    assert csd.emulated
    assert not cpu.emulated


def test_one_prong_alone_is_foretold_with_its_joules(fruit: Plane) -> None:
    remember(fruit, "cpu", 0.04)
    found = foretell(fruit, strategy="cpu")
    assert [prong.prong for prong in found.prongs] == [Prong.CPU]
    assert found.joules == pytest.approx(0.4 * 123)
    assert found.provenance is Provenance.MODELLED


def test_a_pace_of_the_pipeline_on_another_dataset_is_used_and_said(fruit: Plane) -> None:
    remember(fruit, "cpu", 0.04, dataset_version="elsewhere")
    found = foretell(fruit, strategy="cpu")
    assert found.images_per_s == pytest.approx(100)
    origin = "other runs of this pipeline: a dataset since gone (folder)"
    assert found.prongs[0].known_from == [origin]
    assert f"CPU: from {origin}." in found.notes
    remember(fruit, "cpu", 0.02)
    assert foretell(fruit, strategy="cpu").images_per_s == pytest.approx(200)


def test_the_other_dataset_is_named_where_a_run_of_it_is_known(fruit: Plane) -> None:
    fruit.add_dataset(make_images(fruit.scratch / "more", 40), "more")
    trained(fruit, fruit.scratch, dataset="more")
    [note] = [note for note in foretell(fruit, strategy="cpu").notes if "other runs" in note]
    assert "more (folder)" in note


def test_the_last_trainer_of_the_same_work_sets_its_own_limit(fruit: Plane, images: Path) -> None:
    trained(fruit, images)
    found = foretell(fruit, strategy="cpu")
    with fruit.database.session() as session:
        name = session.scalar(select(Run.name))
    assert found.trainer_from == name
    assert found.trainer_per_s is not None
    assert found.made_per_s is not None
    assert found.images_per_s == min(found.made_per_s, found.trainer_per_s)
    assert any(f"as fast as in run {name}" in note for note in found.notes)
    two = foretell(fruit, strategy="cpu", world_size=2)
    assert two.trainer_per_s == pytest.approx(2 * found.trainer_per_s)


def test_a_silent_device_is_not_counted(fruit: Plane) -> None:
    remember(fruit, "cpu", 0.04)
    remember(fruit, "csd", 0.1)
    fruit.now += 3600
    found = foretell(fruit)
    assert [prong.devices for prong in found.prongs] == [[], []]
    assert found.images_per_s is None
    assert any("No device of the CSD prong lives" in note for note in found.notes)


def test_a_device_that_rests_is_not_counted(fruit: Plane) -> None:
    remember(fruit, "cpu", 0.04)
    remember(fruit, "csd", 0.1)
    with fruit.database.session() as session:
        session.get_one(Device, "csd").drained_at = fruit.now
    found = foretell(fruit)
    assert [prong.devices for prong in found.prongs] == [["cpu"], []]
    assert found.images_per_s == pytest.approx(100)


def test_stores_hold_what_the_run_s_own_limits_allow(fruit: Plane) -> None:
    usual = foretell(fruit)
    assert usual.batch_bytes is not None
    assert usual.prongs[0].held_batches == fruit.settings.cpu_window
    few = foretell(fruit, cpu_window=3, csd_store_bytes=1 << 20)
    assert few.prongs[0].held_batches == 3
    assert few.prongs[1].held_bytes <= 1 << 20


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"batch_size": 500}, "batch_size", "choose at most 123"),
        ({"batch_size": "many"}, "batch_size", "write a whole number"),
        ({"batch_size": 0}, "batch_size", "at least 1"),
        ({"world_size": 124, "batch_size": 1}, "world_size", "124 ranks cannot share 123"),
        ({"world_size": 9, "batch_size": 20, "tail": "drop"}, "world_size", "do not fill"),
        ({"dataset": "nowhere"}, "dataset", "there is no dataset nowhere"),
        ({"pipeline": "nothing"}, "pipeline", "there is no pipeline nothing"),
        ({"strategy": "magic"}, "strategy", "choose one of"),
        ({"reorder_window": 3}, "reorder_window", "only bounded has one"),
        ({"name": "no spaces"}, "name", "letters, digits"),
        ({"max_bad_share": 2}, "max_bad_share", "at most 1"),
        ({"colour": "red"}, "colour", "no such field"),
    ],
)
def test_each_problem_is_told_by_its_field(
    fruit: Plane, fields: dict[str, Any], field: str, said: str
) -> None:
    found = problems(foretell(fruit, **fields))
    assert set(found) == {field}
    assert said in found[field]


def test_several_problems_are_told_at_once(fruit: Plane) -> None:
    found = problems(foretell(fruit, dataset="nowhere", pipeline="nothing", strategy="magic"))
    assert set(found) == {"dataset", "pipeline", "strategy"}


def test_a_name_that_is_taken_is_said_and_the_rest_is_foretold(fruit: Plane, images: Path) -> None:
    trained(fruit, images, name="taken")
    found = foretell(fruit, name="taken", strategy="cpu")
    assert "there is a run taken already" in problems(found)["name"]
    assert found.images_per_s is not None


@pytest.mark.parametrize("name", ["new", "compare", "cancel", "forecast"])
def test_a_name_that_is_an_address_of_the_pages_is_refused(fruit: Plane, name: str) -> None:
    found = problems(foretell(fruit, name=name, strategy="cpu"))
    assert found == {"name": f"{name} is an address of the pages; choose another name"}


def test_a_store_without_room_is_said(fruit: Plane) -> None:
    register(fruit, Prong.CPU, name="full", room=RoomInfo(free_bytes=1))
    register(fruit, Prong.CPU, room=RoomInfo(free_bytes=1))
    found = problems(foretell(fruit, strategy="cpu"))
    assert "needs" in found["batch_size"]


def test_a_forecast_makes_nothing(fruit: Plane) -> None:
    foretell(fruit, name="dream")
    with fruit.database.session() as session:
        assert session.scalars(select(Run)).all() == []


def test_the_route_answers_problems_instead_of_failing(fruit: Plane) -> None:
    app = FastAPI()
    app.include_router(route.router, prefix="/api/v1")
    app.state.context = SimpleNamespace(
        database=fruit.database,
        settings=fruit.settings,
        dispatcher=SimpleNamespace(now=lambda: fruit.now),
    )
    with TestClient(app) as client:
        answer = client.post("/api/v1/runs/forecast", json={"batch_size": "x"})
    assert answer.status_code == 200
    assert {entry["field"] for entry in answer.json()["problems"]} == {"dataset", "batch_size"}
