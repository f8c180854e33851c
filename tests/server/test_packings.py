"""Packed datasets: where their shards may lie, what is refused, and what is removed with them."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ddlp.core.errors import Conflict, DdlpError, InvalidInput, NotAllowed, NotFound
from ddlp.core.messages import DatasetCreate, PackCreate, RunCreate
from ddlp.core.records import PackOptions, pack_shard, plan_shards, shard_name
from ddlp.core.settings import Settings
from ddlp.core.types import DatasetState, Prong
from ddlp.server import datasets, forecasts, pack_folders, packings, pictures, runs
from ddlp.server.forecasts import Expected, ForecastQuery
from ddlp.server.models import Dataset
from ddlp.server.pack_plan import Made
from ddlp.server.roots import AllowedFolders
from tests.core.records.making import NEEDS_KERNEL, dataset, encoded
from tests.server.conftest import Plane


@pytest.fixture
def settings(plane: Plane, images: Path) -> Settings:
    plane.add_dataset(images, "fruit")
    return plane.settings


def draft(plane: Plane, origin: str = "fruit", **fields: Any) -> Dataset:
    with plane.database.session() as session:
        return packings.draft(session, plane.settings, origin, PackCreate(**fields))


def pack(plane: Plane, **fields: Any) -> Dataset:
    row = draft(plane, **fields)
    with plane.database.session() as session:
        assert packings.remember(session, row, PackCreate(**fields), Expected())
    pack_folders.prepare(Path(row.uri), row.id, own="into" not in fields)
    return row


def remove(plane: Plane, name: str, only_copy: bool = False) -> Path | None:
    with plane.database.session() as session:
        row = datasets.remove(session, plane.settings, name, only_copy=only_copy)
    with plane.database.session() as session:
        return pack_folders.clear(session, plane.settings, row)


def add(plane: Plane, name: str, place: Path) -> None:
    """A dataset that lies somewhere."""
    with plane.database.session() as session:
        fields = {"name": name, "check": "quick", "state": "ready", "index_path": ""}
        session.add(Dataset(**fields, uri=str(place), created_at=0))


@pytest.mark.usefixtures("settings")
def test_shards_lie_at_home_or_where_it_is_allowed(plane: Plane, images: Path) -> None:
    home = plane.settings.home.resolve()
    assert draft(plane).uri == str(home / "packed" / "fruit-packed")
    assert draft(plane, name="other").uri == str(home / "packed" / "other")
    assert draft(plane, into=str(plane.scratch / "a" / "b")).uri == str(plane.scratch / "a" / "b")
    usual = home / "packed" / "fruit-packed"
    assert draft(plane, into=str(usual)).uri == str(usual)
    for place in ("/", "/etc/shards", str(plane.scratch / ".." / "beside"), "/tmp"):
        with pytest.raises(
            NotAllowed, match=r"is not below an allowed folder .*: ddlp roots add FOLDER"
        ):
            draft(plane, into=place)
    link = plane.scratch / "link"
    link.symlink_to("/etc")
    with pytest.raises(NotAllowed, match="link/shards is not below"):
        draft(plane, into=str(link / "shards"))
    with pytest.raises(Conflict, match="holds dataset fruit"):
        draft(plane, into=str(images))
    with pytest.raises(InvalidInput, match="whose contents would change by it"):
        draft(plane, into=str(images / "packed"))


@pytest.mark.usefixtures("settings")
def test_a_folder_with_something_else_in_it_is_refused(plane: Plane) -> None:
    folder = plane.scratch / "used"
    folder.mkdir()
    (folder / shard_name(0, 1)).write_bytes(b"")
    assert draft(plane, into=str(folder)).uri == str(folder), "it may be a shard of an earlier try"
    (folder / shard_name(0, 9)).write_bytes(b"")
    with pytest.raises(InvalidInput, match=f"holds {shard_name(0, 9)}"):
        draft(plane, into=str(folder))
    file = plane.scratch / "file"
    file.write_bytes(b"")
    with pytest.raises(InvalidInput, match="cannot be used"):
        draft(plane, into=str(file))
    row = pack(plane, into=str(plane.scratch / "mine"))
    with pytest.raises(Conflict, match="holds dataset fruit-packed"):
        draft(plane, name="second", into=row.uri)


@pytest.mark.usefixtures("settings")
def test_datasets_do_not_lie_in_each_other(plane: Plane) -> None:
    around = plane.scratch / "around"
    add(plane, "photos", around / "photos")
    with pytest.raises(InvalidInput, match="which is dataset photos, whose contents would change"):
        draft(plane, into=str(around / "photos" / "cat" / "packed"))
    with pytest.raises(InvalidInput, match=r"contains .*/photos, which is dataset photos"):
        draft(plane, into=str(around))
    assert draft(plane, into=str(around / "photos2"))
    home = plane.settings.home.resolve()
    add(plane, "odd", home / "packed" / "fruit-packed" / "inner")
    with pytest.raises(InvalidInput, match=r"contains .*/inner, which is dataset odd"):
        draft(plane)


@pytest.mark.usefixtures("settings")
def test_the_servers_own_folder_is_left_to_it(plane: Plane) -> None:
    home = plane.settings.home.resolve()
    wide = plane.settings.model_copy(update={"dataset_roots": [home.parent]})
    for place in ("packed/pets-packed/inner", "packed", "packed/other", "indexes", "", ".."):
        body = PackCreate(into=str(home / place))
        with (
            plane.database.session() as session,
            pytest.raises(InvalidInput, match="the server's own folder, or contains it"),
        ):
            packings.draft(session, wide, "fruit", body)


@pytest.mark.usefixtures("settings")
def test_what_another_packing_left_at_home_is_cleared_away(plane: Plane) -> None:
    folder = plane.settings.home.resolve() / "packed" / "fruit-packed"
    folder.mkdir(parents=True)
    for name in (shard_name(0, 1), shard_name(0, 9)):
        (folder / name).write_bytes(b"")
    row = pack(plane)
    assert list(folder.glob("*.ddlp")) == []
    (folder / shard_name(0, 1)).write_bytes(b"")
    pack_folders.unmark(folder, row.id, own=True)
    pack_folders.prepare(folder, row.id, own=True)
    assert (folder / shard_name(0, 1)).exists(), "its own are used again"
    other = folder.with_name("other")
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    with pytest.raises(InvalidInput, match=r"holds letter\.txt"):
        draft(plane, name="other")


def test_what_gains_nothing_is_refused(plane: Plane, settings: Settings) -> None:
    pixels = plane.scratch / "pixels.npz"
    np.savez(pixels, x=np.zeros((3, 8, 8, 3), np.uint8), y=np.arange(3))
    plane.add_dataset(pixels, "pixels")
    with pytest.raises(InvalidInput, match="holds raw pixels"):
        draft(plane, "pixels")
    with plane.database.session() as session:
        datasets.find(session, "fruit").kind = "packed"
    with pytest.raises(InvalidInput, match="is packed already"):
        draft(plane)
    assert draft(plane, max_side=100).name == "fruit-packed"
    with pytest.raises(NotFound):
        draft(plane, "nothing")
    with plane.database.session() as session:
        body = DatasetCreate(uri=str(plane.scratch), name="half")
        datasets.add(session, settings, body)
    with pytest.raises(Conflict, match="is still scanning"):
        draft(plane, "half")


@pytest.mark.usefixtures("settings")
def test_one_that_is_being_packed_is_not_used_and_its_origin_not_removed(plane: Plane) -> None:
    row = pack(plane)
    with plane.database.session() as session:
        with pytest.raises(Conflict, match="dataset fruit-packed is still packing"):
            runs.create(session, RunCreate(dataset="fruit-packed"))
        with pytest.raises(Conflict, match="fruit is used by the packing of fruit-packed"):
            datasets.remove(session, plane.settings, "fruit")
    assert remove(plane, "fruit-packed") == Path(row.uri)
    assert not Path(row.uri).exists()
    with plane.database.session() as session:
        datasets.remove(session, plane.settings, "fruit")


@pytest.mark.usefixtures("settings")
def test_shards_in_a_folder_that_was_chosen_stay(plane: Plane) -> None:
    row = pack(plane, into=str(plane.scratch / "mine"))
    shard = Path(row.uri) / shard_name(0, 1)
    shard.write_bytes(b"x")
    assert remove(plane, row.name) is None
    assert [path.name for path in Path(row.uri).iterdir()] == [shard.name]


@pytest.mark.usefixtures("settings")
def test_only_what_the_packing_wrote_is_removed(plane: Plane) -> None:
    row = pack(plane)
    folder = Path(row.uri)
    mine = [shard_name(0, 1), f".{shard_name(0, 1)}.abc.unfinished"]
    others = ["inner/" + shard_name(0, 1), shard_name(0, 2), "letter.txt"]
    for name in (*mine, *others):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")
    assert remove(plane, row.name) == folder
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert left == set(others)


@pytest.mark.usefixtures("settings")
def test_shards_that_may_be_the_only_copy_are_not_removed_unasked(plane: Plane) -> None:
    row = pack(plane)
    with plane.database.session() as session:
        session.delete(datasets.find(session, "fruit"))
    shard = Path(row.uri) / shard_name(0, 1)
    shard.write_bytes(b"x")
    with pytest.raises(Conflict, match=r"may be the only copy; to keep them, copy .* --only-copy"):
        remove(plane, row.name)
    assert shard.exists()
    assert remove(plane, row.name, only_copy=True) == Path(row.uri)
    assert not shard.exists()


@pytest.mark.usefixtures("settings")
def test_one_whose_shards_stay_anyway_is_removed_without_asking(plane: Plane) -> None:
    row = pack(plane, into=str(plane.scratch / "mine"))
    (Path(row.uri) / shard_name(0, 1)).write_bytes(b"x")
    with plane.database.session() as session:
        session.delete(datasets.find(session, "fruit"))
    assert remove(plane, row.name) is None


@pytest.mark.usefixtures("settings")
def test_a_folder_at_home_that_another_dataset_uses_stays(plane: Plane) -> None:
    row = pack(plane)
    add(plane, "too", Path(row.uri))
    assert remove(plane, row.name) is None
    assert Path(row.uri).is_dir()


def test_a_version_that_is_not_the_origins_is_noticed(
    plane: Plane, settings: Settings, images: Path
) -> None:
    row = pack(plane)
    with plane.database.session() as session:
        found = packings.hand_over(session, row.id, Made(records=1, kept=0, skipped=0, bytes=1))
        assert found is not None
        assert found.state == DatasetState.SCANNING.value
        assert packings.hand_over(session, row.id, Made.of([])) is None
    Path(row.index_path).parent.mkdir(exist_ok=True)
    with plane.database.session() as session:
        origin = datasets.find(session, "fruit")
        shutil.copy(origin.index_path, row.index_path)
        datasets.finish(session, row.id)
        found = datasets.find_ready(session, row.name)
        found.packing = {**(found.packing or {}), "origin_version": "e" * 64}
        with pytest.raises(DdlpError, match="not to that of fruit, eeeeeeeeeeee"):
            datasets.finish(session, row.id)
        folders = AllowedFolders((), plane.scratch)
        assert datasets.place_of(settings, folders, row) == Path(row.uri)


def test_room_is_looked_at_before_it_begins(
    plane: Plane, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = plane.scratch / "new"
    pack_folders.check_room(folder, 1000)
    monkeypatch.setattr(pack_folders, "free_bytes", lambda _: 2 * 10**9)
    with pytest.raises(Conflict, match=r"has room for 2\.0 GB and about 3\.1 GB would be"):
        pack_folders.check_room(folder, 3e9)
    monkeypatch.setattr(pack_folders, "free_bytes", lambda _: 20_000)
    with pytest.raises(Conflict, match=r"has room for 20\.0 kB and about 30\.6 kB would be"):
        pack_folders.check_room(folder, 30_000)

    def cannot(*_: object) -> bytes:
        raise InvalidInput("packing needs the kernel")

    monkeypatch.setattr(pictures, "answer", cannot)
    with plane.database.session() as session:
        row = datasets.find(session, "fruit")
    expected = forecasts.expect(row, ForecastQuery(), 2)
    assert expected.bytes == pytest.approx(1.3 * row.total_bytes)
    assert (expected.forecast, expected.problem) == (None, "packing needs the kernel")
    with pytest.raises(InvalidInput, match="needs the kernel"):
        forecasts.forecast(row, ForecastQuery(), 2)


def test_a_forecast_knows_how_many_processes_there_are(
    plane: Plane, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = (
        b'{"samples": 9, "looked_at": 9, "origin_bytes": 10, "bytes": 12, "ratio": 1.2, '
        b'"record_share": 1, "pack_s": 8, "decode_us": 4, "packed_decode_us": 1}'
    )
    monkeypatch.setattr(pictures, "answer", lambda *_: raw)
    row: Any = SimpleNamespace(index_path="/nowhere")
    found = forecasts.forecast(row, ForecastQuery(), 2)
    assert (found.seconds, found.processes) == (4, 2)
    expected = forecasts.expect(row, ForecastQuery(), 2)
    assert (expected.bytes, expected.forecast, expected.problem) == (12, found, None)
    assert forecasts.forecast(row, ForecastQuery(), 0).seconds is None
    assert forecasts.forecast(row, ForecastQuery(on=Prong.CSD), 2).seconds is None


@NEEDS_KERNEL
def test_lossy_shards_that_were_packed_elsewhere_say_so(plane: Plane) -> None:
    place = plane.scratch / "small"
    index = dataset(plane.scratch / "origin", {"a.jpg": encoded(), "b.jpg": encoded(side=40)})
    pack_shard(index, plan_shards(index.samples), 0, PackOptions(max_side=30), place)
    whole = plane.scratch / "whole"
    pack_shard(index, plan_shards(index.samples), 0, PackOptions(), whole)
    found = {}
    for folder in (place, whole, plane.scratch / "origin" / "data"):
        plane.add_dataset(folder, folder.name)
        with plane.database.session() as session:
            info = datasets.info(datasets.find(session, folder.name))
        found[folder.name] = (info.lossy, info.pixels)
    assert found == {
        "small": (True, "lossy: longest side 30, quality 90"),
        "whole": (False, "the origin's, bit for bit"),
        "data": (None, None),
    }


@pytest.mark.usefixtures("settings")
def test_one_that_is_being_packed_says_what_will_be_lost(plane: Plane) -> None:
    for choice, pixels in (
        ({"name": "a", "quality": 80}, (True, "lossy: quality 80")),
        ({"name": "b"}, (False, "the origin's, bit for bit")),
    ):
        info = datasets.info(pack(plane, **choice))
        assert (info.lossy, info.pixels) == pixels
