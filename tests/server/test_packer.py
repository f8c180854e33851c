"""Packing in the background: who is sent what, what is lost and found, and how it ends."""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import make_transient

from ddlp.core.errors import Conflict, NotFound
from ddlp.core.messages import (
    PACK_MARK,
    PackCreate,
    PackingInfo,
    PackTask,
    RunCreate,
    ShardClaim,
    ShardNews,
    ShardReport,
)
from ddlp.core.types import DatasetState, Prong
from ddlp.server import datasets, forecasts, pack_folders, packings, runs
from ddlp.server.database import Database
from ddlp.server.forecasts import Expected
from ddlp.server.idempotency import Once
from ddlp.server.models import Dataset
from ddlp.server.packer import Packer
from ddlp.server.routes import datasets as routes
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import register


class Desk:
    """A packer whose steps are taken one by one, and who does what workers do."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.settings = plane.settings.model_copy(update={"pack_shard_samples": 20})
        self.sent: list[tuple[Prong, PackTask]] = []
        self.scanned: list[str] = []
        self.time = 0.0
        self.packer = self.anew()

    def anew(self) -> Packer:
        """A packer as a server that is started makes it."""
        self.packer = Packer(
            self.plane.database,
            self.settings,
            lambda prong, task: self.sent.append((prong, task)),
            lambda row: self.scanned.append(row.name),
            lambda: self.plane.now,
            lambda: self.time,
        )
        self.packer.resume()
        return self.packer

    def pack(self, **fields: Any) -> Dataset:
        return self.packer.admit("fruit", PackCreate(**fields), Expected())

    def take(self) -> list[int]:
        """The shards that were sent since this was last asked."""
        self.packer.step()
        sent, self.sent = self.sent, []
        return [task.shard for _, task in sent]

    def claim(self, row: Dataset, shard: int, device: str = "cpu", process: int = 1) -> uuid.UUID:
        body = ShardClaim(device=device, shard=shard, process=process)
        token = self.packer.claim(row.id, body).token
        assert token is not None
        return token

    def news(self, row: Dataset, shard: int, token: uuid.UUID, samples: int) -> bool:
        told = {"device": "cpu", "shard": shard, "process": 1, "token": token, "samples": samples}
        return self.packer.hear(row.id, ShardNews.model_validate(told)).wanted

    def report(self, row: Dataset, shard: int, **fields: Any) -> None:
        usual = {"device": "cpu", "shard": shard, "samples": 20, "records": 19, "bytes": 1000}
        self.packer.report(row.id, ShardReport.model_validate({**usual, **fields}))

    def row(self, name: str = "fruit-packed") -> Dataset:
        with self.plane.database.session() as session:
            return datasets.find(session, name)

    def progress(self) -> PackingInfo:
        found = self.packer.progress(self.row())
        assert found is not None
        return found


@pytest.fixture
def desk(plane: Plane, images: Path) -> Iterator[Desk]:
    plane.add_dataset(images, "fruit")
    register(plane, Prong.CPU, slots=4)
    found = Desk(plane)
    yield found
    found.packer.stop()


def test_a_few_shards_are_out_at_a_time_and_the_last_report_hands_over_to_the_scan(
    desk: Desk,
) -> None:
    row = desk.pack(on_bad="skip")
    assert (row.kind, row.state, row.origin) == ("packed", "packing", "fruit")
    assert (Path(row.uri) / PACK_MARK).read_text() == str(row.id)
    assert desk.take() == [0, 1, 2, 3]
    assert desk.take() == []
    desk.report(row, 2)
    assert desk.take() == [4]
    for shard in (0, 1, 3, 4):
        desk.report(row, shard)
    assert desk.take() == [5, 6]
    seen = desk.progress()
    assert (seen.shards_done, seen.shards, seen.samples_done, seen.samples) == (5, 7, 100, 123)
    assert (seen.records, seen.kept, seen.bytes, seen.lossy) == (95, 5, 5000, False)
    desk.report(row, 5)
    desk.report(row, 6, samples=3, records=1, skipped=1)
    assert desk.take() == []
    assert (desk.scanned, desk.row().state) == (["fruit-packed"], DatasetState.SCANNING.value)
    seen = desk.progress()
    assert (seen.shards_done, seen.samples_done, seen.records) == (7, 123, 115)
    assert (seen.kept, seen.skipped, seen.bytes) == (7, 1, 7000)
    with pytest.raises(NotFound, match="is not being packed"):
        desk.claim(row, 0)


def test_half_of_the_processes_are_left_to_runs_that_need_them(desk: Desk) -> None:
    with desk.plane.database.session() as session:
        runs.create(session, RunCreate(dataset="fruit", name="r", strategy="cpu"))
    register(desk.plane, Prong.CSD, slots=2)
    desk.pack()
    assert desk.take() == [0, 1]
    desk.pack(name="there", on=Prong.CSD)
    assert desk.take() == [0, 1], "no run uses the drives"


def test_one_that_nobody_can_pack_says_so_and_goes_on_when_somebody_can(desk: Desk) -> None:
    row = desk.pack(on=Prong.CSD)
    assert desk.take() == []
    assert desk.progress().waiting == (
        "no csd device is alive; start one with: ddlp worker --prong csd"
    )
    register(desk.plane, Prong.CSD)
    assert desk.take() == [0]
    assert desk.progress().waiting is None
    desk.claim(row, 0, "csd")


def test_what_a_device_held_that_is_gone_or_started_anew_is_sent_again(desk: Desk) -> None:
    row = desk.pack()
    assert desk.take() == [0, 1, 2, 3]
    desk.claim(row, 0)
    register(desk.plane, Prong.CPU, slots=4)
    assert desk.take() == [1, 2, 3, 4], "the one that was begun pauses for a second"
    desk.time += 2
    desk.report(row, 4)
    assert desk.take() == [0]
    desk.claim(row, 0)
    desk.plane.now += 100
    assert desk.take() == []
    register(desk.plane, Prong.CPU, slots=4)
    desk.time += 4
    assert desk.take() == [0, 1, 2, 3]


def test_signs_of_life_keep_a_shard_and_say_whether_it_is_wanted(desk: Desk) -> None:
    row = desk.pack()
    desk.take()
    token = desk.claim(row, 0)
    assert desk.news(row, 0, token, 7)
    assert desk.progress().samples_done == 7
    double = desk.packer.claim(row.id, ShardClaim(device="cpu", shard=0, process=2))
    assert (double.token, double.holder) == (None, 1)
    assert not desk.news(row, 0, uuid.uuid4(), 9)
    assert desk.progress().samples_done == 7
    desk.packer.forget(row)
    assert not desk.news(row, 0, token, 7)
    stranger = ShardClaim(device="nobody", shard=1, process=1)
    with pytest.raises(Conflict, match="device nobody is not registered"):
        desk.packer.claim(row.id, stranger)


def test_a_shard_that_cannot_be_packed_fails_it_and_the_next_try_begins_anew(desk: Desk) -> None:
    row = desk.pack()
    desk.take()
    token = desk.claim(row, 0)
    desk.report(row, 0, problem="no room", permanent=True, token=token)
    desk.take()
    assert (desk.row().state, desk.row().reason) == ("failed", "no room")
    with pytest.raises(NotFound):
        desk.packer.spec(row.id)
    again = desk.pack()
    assert (again.id, desk.row().state, desk.row().reason) == (row.id, "packing", None)
    assert desk.take() == [0, 1, 2, 3]


def test_one_that_failed_is_tried_again_with_another_choice_for_bad_samples(desk: Desk) -> None:
    row = desk.pack()
    desk.take()
    with pytest.raises(Conflict, match="choose another --name"):
        desk.pack(on_bad="skip")
    token = desk.claim(row, 0)
    desk.report(row, 0, problem="a.jpg cannot be packed", permanent=True, token=token)
    desk.take()
    again = desk.pack(on_bad="skip")
    assert (again.id, desk.row().state) == (row.id, "packing")
    assert desk.packer.spec(row.id).options.on_bad == "skip"
    assert desk.progress().options.on_bad == "skip"


def test_a_late_report_of_a_shard_that_lacks_samples_is_not_taken_for_a_whole_one(
    desk: Desk,
) -> None:
    row = desk.pack()
    desk.take()
    with pytest.raises(Conflict, match="shard 0 lacks samples"):
        desk.report(row, 0, skipped=2)
    assert desk.progress().shards_done == 0


def test_all_who_ask_for_the_same_at_once_get_the_same(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(6) as pool:
        found = [future.result() for future in [pool.submit(desk.pack) for _ in range(6)]]
    assert len({row.id for row in found}) == 1
    draft = packings.draft
    missed = []

    def draft_too_early(*given: Any) -> Dataset:
        row = draft(*given)
        if missed:
            return row
        missed.append(row)
        make_transient(row)
        row.id, row.state = uuid.uuid4(), "packing"
        return row

    monkeypatch.setattr(packings, "draft", draft_too_early)
    assert desk.pack().id == found[0].id
    assert missed


def test_a_failure_that_is_known_leaves_the_mark_of_the_next_attempt_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = desk.pack(into=str(desk.plane.scratch / "mine"))
    desk.take()
    token = desk.claim(row, 0)
    desk.report(row, 0, problem="no room", permanent=True, token=token)
    session = Database.session

    @contextmanager
    def retried_at_once(database: Database) -> Iterator[Any]:
        with session(database) as found:
            yield found
        monkeypatch.setattr(Database, "session", session)
        if desk.row().state == "failed":
            desk.pack(into=row.uri)
        else:
            monkeypatch.setattr(Database, "session", retried_at_once)

    monkeypatch.setattr(Database, "session", retried_at_once)
    desk.packer.step()
    assert desk.row().state == "packing"
    assert (Path(row.uri) / PACK_MARK).read_text() == str(row.id)


def test_what_was_removed_does_not_take_the_mark_of_another_with_it(desk: Desk) -> None:
    place = str(desk.plane.scratch / "mine")
    row = desk.pack(into=place)
    with desk.plane.database.session() as session:
        datasets.remove(session, desk.settings, row.name)
    other = desk.pack(into=place, name="other")
    assert desk.packer.forget(row) is None
    assert (Path(place) / PACK_MARK).read_text() == str(other.id)
    pack_folders.unmark(Path(place), other.id, own=False)
    assert not (Path(place) / PACK_MARK).exists()


def test_one_that_is_under_way_is_not_forecast_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def expect(*given: Any) -> Expected:
        asked.append(given)
        return Expected(problem="a.jpg cannot be read")

    monkeypatch.setattr(forecasts, "expect", expect)
    context: Any = SimpleNamespace(
        packer=desk.packer,
        settings=desk.settings,
        database=desk.plane.database,
        dispatcher=desk.plane.dispatcher,
        scanner=SimpleNamespace(progress=lambda _: None),
    )
    for _ in range(2):
        info = routes.pack("fruit", PackCreate(), context, Once(None, "", 0.0))
        assert info.packing is not None
        assert (info.state, info.packing.forecast) == (DatasetState.PACKING, None)
        assert info.packing.no_forecast == "a.jpg cannot be read"
    assert len(asked) == 1


def test_what_emulated_devices_pack_is_marked_for_good(desk: Desk) -> None:
    register(desk.plane, Prong.CSD, slots=2)
    row = desk.pack(on=Prong.CSD)
    assert desk.progress().emulated is None
    desk.take()
    desk.claim(row, 0, "csd")
    assert desk.progress().emulated
    desk.take()
    desk.anew()
    assert desk.progress().emulated
    other = desk.pack(name="other")
    desk.take()
    desk.claim(other, 0)
    seen = desk.packer.progress(other)
    assert seen is not None
    assert seen.emulated is False


def test_asking_twice_for_the_same_gives_the_same_and_for_another_is_refused(desk: Desk) -> None:
    row = desk.pack(quality=80)
    assert desk.pack(quality=80).id == row.id
    assert desk.pack(quality=80, into=row.uri).id == row.id
    for other in ({"quality": 81}, {}, {"quality": 80, "into": str(desk.plane.scratch / "x")}):
        with pytest.raises(Conflict, match="choose another --name"):
            desk.pack(**other)
    with pytest.raises(Conflict, match="is being packed on cpu already"):
        desk.pack(quality=80, on=Prong.CSD)


def test_a_server_that_is_started_again_goes_on(desk: Desk) -> None:
    row = desk.pack()
    desk.take()
    desk.report(row, 0)
    desk.anew()
    spec = desk.packer.spec(row.id)
    assert (spec.per_shard, spec.into) == (20, Path(row.uri))
    assert desk.news(row, 1, uuid.uuid4(), 3)
    assert desk.take() == [0, 2, 3], "one is known to be under way, the others are looked for"
    desk.settings = desk.settings.model_copy(update={"pack_shard_samples": 5})
    desk.anew()
    assert desk.progress().shards == 7, "it goes on as it was cut"


def test_one_that_was_written_down_but_not_begun_is_taken_up_soon(desk: Desk) -> None:
    desk.pack()
    desk.packer._packings.clear()
    assert desk.take() == []
    desk.time += 6
    assert desk.take() == [0, 1, 2, 3]


def test_one_whose_origin_is_gone_has_failed(desk: Desk) -> None:
    desk.pack()
    with desk.plane.database.session() as session:
        session.delete(datasets.find(session, "fruit"))
    desk.anew()
    assert desk.row().state == "failed"
    assert "dataset fruit, of which fruit-packed is made, was removed" in (desk.row().reason or "")


def test_a_database_that_is_away_holds_nothing_up_for_good(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.pack()
    session = desk.plane.database.session
    away = [True, True]

    def sometimes() -> Any:
        if away:
            away.pop()
            raise OperationalError("select", {}, Exception("away"))
        return session()

    monkeypatch.setattr(desk.plane.database, "session", sometimes)
    desk.packer.start()
    wait_until(lambda: len(desk.sent) == 4)


def test_nonsense_is_refused(desk: Desk) -> None:
    row = desk.pack()
    with pytest.raises(NotFound, match="there is no shard 7"):
        desk.report(row, 7)
    with pytest.raises(NotFound, match="is not being packed"):
        desk.packer.spec(uuid.uuid4())
