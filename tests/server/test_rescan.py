"""A dataset is scanned again: a new version takes its name, and runs keep the one they have."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import Conflict, InvalidInput, NotFound
from ddlp.core.messages import DatasetCreate, PackCreate, RetryCreate, RunClone, RunCreate
from ddlp.core.types import Prong, RunState
from ddlp.server import audit, datasets, quarantine, retries, run_clones, runs, scanner, versions
from ddlp.server.models import Dataset, Run
from ddlp.server.packer import Packer
from ddlp.server.scanner import Scanner
from tests.conftest import make_images, wait_until
from tests.server.conftest import Plane
from tests.server.driving import ask, deliver, new_run, register
from tests.server.test_scanner import SlowScan, left_in


@pytest.fixture
def place(plane: Plane) -> Path:
    """A dataset called fruit whose files may be changed."""
    root = make_images(plane.scratch / "fruit", 30)
    plane.add_dataset(root, "fruit")
    return root


@pytest.fixture
def service(plane: Plane) -> Iterator[Scanner]:
    found = Scanner(plane.database, plane.settings)
    found.start()
    yield found
    found.stop()


def change(place: Path) -> None:
    """One file less, and another one with new bytes."""
    (place / "plum" / "0002.jpg").unlink()
    shutil.copy(place / "apple" / "0003.jpg", place / "apple" / "0000.jpg")


def find(plane: Plane, name: str = "fruit") -> Dataset:
    with plane.database.session() as session:
        return datasets.find(session, name)


def begin(plane: Plane, service: Scanner, name: str = "fruit") -> Dataset:
    with plane.database.session() as session:
        _, scan, is_new = datasets.rescan(session, name)
    if is_new:
        service.begin(scan)
    return scan


def rescan(plane: Plane, service: Scanner) -> dict[str, Any]:
    """Scan fruit again, and say what came of it."""
    scan = begin(plane, service)
    wait_until(lambda: service.progress(scan.id) is None)
    said = find(plane).rescan
    assert said is not None
    return said


def indexes(plane: Plane) -> list[str]:
    with plane.database.session() as session:
        return sorted(Path(row.index_path).name for row in datasets.list_all(session, every=True))


def run_over(plane: Plane, place: Path, dataset: str = "fruit", **fields: Any) -> uuid.UUID:
    return new_run(plane, place, dataset=dataset, batch_size=5, **fields)


def test_what_changed_is_a_new_version_and_a_run_goes_on_with_the_old_one(
    plane: Plane, service: Scanner, place: Path
) -> None:
    register(plane, Prong.CPU)
    run = run_over(plane, place, name="r", strategy="cpu")
    first = deliver(plane, run, stop=2)
    old = find(plane)
    change(place)
    said = rescan(plane, service)
    new, kept = find(plane), find(plane, f"fruit@{old.version[:8]}")
    assert said == {"state": "done", "earlier": kept.name}
    assert (new.samples, kept.samples, kept.id) == (29, 30, old.id)
    assert new.version != kept.version == old.version
    with plane.database.session() as session:
        row = session.get_one(Run, run)
        spec = runs.work_spec(session, row)
        assert (row.dataset, row.dataset_version) == ("fruit", old.version)
        assert [row.name for row in datasets.list_all(session)] == ["fruit"]
        assert versions.earlier(session, "fruit") == [kept.name]
    assert DatasetIndex(spec.index_path).version == old.version
    assert first + deliver(plane, run, start=2, stop=6) == list(range(6))


def test_a_run_of_either_version_is_made_by_name(
    plane: Plane, service: Scanner, place: Path
) -> None:
    run_over(plane, place, name="r")
    old = find(plane)
    change(place)
    rescan(plane, service)
    new = find(plane)
    with plane.database.session() as session:
        for name, version in (
            ("fruit", new.version),
            (f"fruit@{new.version[:8]}", new.version),
            (f"fruit@{old.version[:8]}", old.version),
        ):
            row = runs.create(session, RunCreate(dataset=name, batch_size=5))
            assert (row.dataset, row.dataset_version) == ("fruit", version)
        row = run_clones.create_clone(session, "r", RunClone())
        assert row.dataset_version == new.version
        before = RunClone(dataset=f"fruit@{old.version[:8]}")
        assert run_clones.create_clone(session, "r", before).dataset_version == old.version
        with pytest.raises(NotFound):
            datasets.find(session, "fruit@00000000")


def test_a_run_is_tried_again_over_its_own_version(
    plane: Plane, service: Scanner, place: Path
) -> None:
    run = run_over(plane, place, name="r")
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    old = find(plane)
    change(place)
    rescan(plane, service)
    with plane.database.session() as session:
        again = retries.create_retry(session, "r", RetryCreate())
        assert (again.dataset_id, again.dataset) == (old.id, "fruit")
        assert datasets.find_version(session, "fruit", old.version[:12]).id == old.id
        assert quarantine.of_dataset(session, find(plane), 0, 10).total == 0
        with pytest.raises(NotFound, match="has version"):
            datasets.find_version(session, "fruit", "f" * 12)


def test_the_old_version_goes_with_its_last_run(
    plane: Plane, service: Scanner, place: Path
) -> None:
    made = [run_over(plane, place, name=name) for name in ("a", "b")]
    for run in made:
        plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    old = find(plane)
    change(place)
    rescan(plane, service)
    for count, run in enumerate(made, start=1):
        assert Path(old.index_path).exists()
        ask(plane, lambda board, session, now, run=run: _delete(board, session, run, now))
        with plane.database.session() as session:
            assert len(versions.earlier(session, "fruit")) == 2 - count
    assert left_in(plane) == indexes(plane)
    assert not Path(old.index_path).exists()


def _delete(board: Any, session: Any, run: uuid.UUID, now: float) -> None:
    from ddlp.server.run_removal import delete_run

    delete_run(board, session, run, now)


def test_an_old_version_without_runs_goes_at_once(
    plane: Plane, service: Scanner, place: Path
) -> None:
    change(place)
    assert rescan(plane, service) == {"state": "done", "earlier": None}
    assert left_in(plane) == indexes(plane)
    with plane.database.session() as session:
        assert [row.name for row in datasets.list_all(session, every=True)] == ["fruit"]


def test_the_same_version_is_said_and_changes_nothing(
    plane: Plane, service: Scanner, place: Path
) -> None:
    old = find(plane)
    assert rescan(plane, service) == {"state": "unchanged"}
    now = find(plane)
    assert (now.id, now.version, now.index_path) == (old.id, old.version, old.index_path)
    assert left_in(plane) == indexes(plane)


def test_an_index_that_was_damaged_is_whole_again(
    plane: Plane, service: Scanner, place: Path
) -> None:
    path = Path(find(plane).index_path)
    path.write_bytes(b"nothing")
    assert rescan(plane, service) == {"state": "unchanged"}
    assert DatasetIndex(path).version == find(plane).version


def test_files_that_are_as_they_were_are_the_version_of_before(
    plane: Plane, service: Scanner, place: Path
) -> None:
    run = run_over(plane, place)
    old = find(plane)
    moved = place / "plum" / "0002.jpg"
    moved.rename(place.parent / "away.jpg")
    rescan(plane, service)
    run_over(plane, place)
    middle = find(plane)
    (place.parent / "away.jpg").rename(moved)
    said = rescan(plane, service)
    assert find(plane).id == old.id
    assert said["earlier"] == f"fruit@{middle.version[:8]}"
    with plane.database.session() as session:
        assert session.get_one(Run, run).dataset_id == old.id
    assert left_in(plane) == indexes(plane)


def test_a_scan_that_fails_leaves_the_dataset_as_it_was(
    plane: Plane, service: Scanner, place: Path
) -> None:
    run_over(plane, place)
    old = find(plane)
    place.rename(place.parent / "elsewhere")
    said = rescan(plane, service)
    now = find(plane)
    assert said["state"] == "failed"
    assert "does not exist" in said["reason"]
    assert (now.id, now.state, now.index_path) == (old.id, "ready", old.index_path)
    assert left_in(plane) == indexes(plane)
    with plane.database.session() as session:
        [event] = audit.page(session, subject="fruit", action="dataset.rescan_failed")
        assert "could not be scanned again" in event.words
        runs.create(session, RunCreate(dataset="fruit", batch_size=5))


def test_a_rescan_is_followed_and_not_begun_twice_and_the_dataset_is_ready_meanwhile(
    plane: Plane, service: Scanner, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowScan()
    monkeypatch.setattr(scanner, "scan_apart", slow)
    scan = begin(plane, service)
    wait_until(lambda: (now := service.progress(scan.id)) is not None and now.found == 9)
    assert begin(plane, service).id == scan.id
    with plane.database.session() as session:
        row = datasets.find_ready(session, "fruit")
        assert row.rescan == {"state": "scanning", "scan": str(scan.id)}
        assert [row.name for row in datasets.list_all(session, every=True)] == ["fruit"]
        with pytest.raises(NotFound):
            datasets.find(session, "fruit@rescan")
    slow.go.set()
    wait_until(lambda: service.progress(scan.id) is None)
    assert len(slow.checks) == 1


def test_a_rescan_that_a_server_was_at_when_it_ended_is_begun_again(
    plane: Plane, service: Scanner, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowScan()
    monkeypatch.setattr(scanner, "scan_apart", slow)
    change(place)
    scan = begin(plane, service)
    wait_until(lambda: slow.under_way == 1)
    service.stop()
    assert find(plane).samples == 30
    again = Scanner(plane.database, plane.settings)
    again.start()
    slow.go.set()
    wait_until(lambda: find(plane).samples == 29)
    again.stop()
    assert find(plane).id == scan.id


def test_a_dataset_that_is_removed_meanwhile_takes_its_rescan_along(
    plane: Plane, service: Scanner, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowScan()
    monkeypatch.setattr(scanner, "scan_apart", slow)
    scan = begin(plane, service)
    wait_until(lambda: slow.under_way == 1)
    with plane.database.session() as session:
        row = datasets.remove(session, plane.settings, "fruit")
    Path(row.index_path).unlink()
    slow.go.set()
    wait_until(lambda: service.progress(scan.id) is None)
    assert left_in(plane) == []
    with plane.database.session() as session:
        assert session.get(Dataset, scan.id) is None


def test_what_does_not_change_is_not_scanned_again(
    plane: Plane, service: Scanner, place: Path
) -> None:
    run_over(plane, place)
    old = find(plane)
    change(place)
    rescan(plane, service)
    packer = Packer(plane.database, plane.settings, lambda *_: None, service.begin, lambda: 0.0)
    with plane.database.session() as session:
        with pytest.raises(InvalidInput, match="earlier version, which never changes"):
            datasets.rescan(session, f"fruit@{old.version[:8]}")
        row = packer.draft("fruit", PackCreate())
        row.state = "ready"
        session.add(row)
        with pytest.raises(Conflict, match=r"rescan that one with: ddlp dataset rescan fruit, the"):
            datasets.rescan(session, "fruit-packed")


def test_the_names_of_versions_cannot_be_given() -> None:
    for name in ("fruit@rescan", "fruit@12345678"):
        with pytest.raises(ValidationError):
            DatasetCreate(uri="/", name=name)
        with pytest.raises(ValidationError):
            PackCreate(name=name)
    with pytest.raises(ValidationError):
        RunCreate(dataset="fruit@rescan")


def test_splits_that_were_taken_as_classes_are_so_again(plane: Plane, service: Scanner) -> None:
    root = plane.scratch / "vehicles"
    for name in ("train", "test"):
        make_images(root / name, 3)
    body = DatasetCreate(uri=str(root), name="fruit", as_classes=True)
    with plane.database.session() as session:
        row = datasets.add(session, plane.settings, body)
    service.begin(row)
    wait_until(lambda: find(plane).state == "ready")
    (root / "test" / "apple" / "0000.jpg").unlink()
    assert rescan(plane, service)["state"] == "done"
    assert find(plane).classes == ["test", "train"]
