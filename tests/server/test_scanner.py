"""Scans in the background: progress, failures, datasets removed meanwhile, servers that end."""

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.dataset import ScanOptions, ScanProgress
from ddlp.core.dataset import scan as real_scan
from ddlp.core.errors import Conflict, InvalidInput, NotAllowed, NotFound, Unavailable
from ddlp.core.messages import DatasetCreate, RunCreate
from ddlp.core.types import RunState
from ddlp.server import datasets, runs, scanner
from ddlp.server.models import Dataset, Run
from ddlp.server.scanner import Scanner
from tests.conftest import make_images, wait_until
from tests.server.conftest import Plane


class SlowScan:
    """A scan that reports something and then waits to be let go, or to be stopped."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.under_way = 0
        self.most = 0

    def __call__(
        self,
        uri: Path,
        into: Path,
        options: ScanOptions,
        report: Callable[[ScanProgress], None],
        stop: Callable[[], bool],
    ) -> Any:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        report(ScanProgress(found=9, done=4, rejected=1, bytes=77))
        try:
            while not self.go.wait(0.01):
                if stop():
                    raise Conflict("the scan was stopped")
            return real_scan(uri, into, options, report, stop)
        finally:
            self.under_way -= 1


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowScan:
    found = SlowScan()
    monkeypatch.setattr(scanner, "scan", found)
    return found


@pytest.fixture
def service(plane: Plane) -> Iterator[Scanner]:
    found = Scanner(plane.database, plane.settings)
    found.start()
    yield found
    found.stop()


def add(plane: Plane, service: Scanner, place: Path, name: str) -> Dataset:
    with plane.database.session() as session:
        row = datasets.add(session, plane.settings, DatasetCreate(uri=str(place), name=name))
    service.begin(row)
    return row


def state(plane: Plane, name: str) -> str:
    with plane.database.session() as session:
        return datasets.find(session, name).state


def test_a_scan_goes_on_in_the_background_and_says_how_far_it_is(
    plane: Plane, service: Scanner, images: Path, slow: SlowScan
) -> None:
    row = add(plane, service, images, "fruit")
    wait_until(lambda: (found := service.progress(row.id)) is not None and found.found == 9)
    with plane.database.session() as session:
        info = datasets.info(datasets.find(session, "fruit"), service.progress(row.id))
        assert (info.state, info.progress.done, info.progress.bytes) == ("scanning", 4, 77)
        with pytest.raises(Conflict, match="dataset fruit is still scanning"):
            runs.create(session, RunCreate(dataset="fruit"))
    slow.go.set()
    wait_until(lambda: state(plane, "fruit") == "ready")
    with plane.database.session() as session:
        info = datasets.info(datasets.find(session, "fruit"))
    assert (info.kind, info.samples, info.rejected, info.progress.done) == ("folder", 123, 0, 123)


def test_a_few_are_scanned_at_once_and_not_endlessly_many_wait(
    plane: Plane, service: Scanner, images: Path, slow: SlowScan, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        add(plane, service, images, f"fruit-{number}")
    monkeypatch.setattr(scanner, "WAITING", 5)
    with pytest.raises(Unavailable, match="5 scans are under way or waiting"):
        service.check_room()
    slow.go.set()
    wait_until(lambda: all(state(plane, f"fruit-{n}") == "ready" for n in range(5)))
    assert slow.most <= scanner.AT_ONCE
    service.check_room()


def test_a_scan_that_fails_says_why_and_gives_its_name_away(
    plane: Plane, service: Scanner, images: Path
) -> None:
    nothing = plane.scratch
    add(plane, service, nothing, "fruit")
    wait_until(lambda: state(plane, "fruit") == "failed")
    with plane.database.session() as session:
        row = datasets.find(session, "fruit")
        assert str(nothing) in (row.reason or "")
        assert not Path(row.index_path).exists()
        with pytest.raises(Conflict, match="dataset fruit is failed: "):
            datasets.find_ready(session, "fruit")
    add(plane, service, images, "fruit")
    wait_until(lambda: state(plane, "fruit") == "ready")


def test_a_scan_that_breaks_in_an_unforeseen_way_is_told_too(
    plane: Plane, service: Scanner, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("nobody thought of this")

    monkeypatch.setattr(scanner, "scan", broken)
    row = add(plane, service, images, "fruit")
    wait_until(lambda: state(plane, "fruit") == "failed")
    wait_until(lambda: service.progress(row.id) is None)
    with plane.database.session() as session:
        assert "nobody thought of this" in (datasets.find(session, "fruit").reason or "")


def test_a_dataset_that_is_removed_while_it_is_scanned_leaves_nothing(
    plane: Plane, service: Scanner, images: Path, slow: SlowScan
) -> None:
    row = add(plane, service, images, "fruit")
    wait_until(lambda: slow.under_way == 1)
    with plane.database.session() as session:
        datasets.remove(session, "fruit")
    service.forget(row.id)
    wait_until(lambda: service.progress(row.id) is None)
    assert not Path(row.index_path).exists()
    with plane.database.session() as session, pytest.raises(NotFound):
        datasets.find(session, "fruit")


def test_what_a_server_was_scanning_when_it_ended_is_failed_at_the_next_start(
    plane: Plane, service: Scanner, images: Path, slow: SlowScan
) -> None:
    row = add(plane, service, images, "fruit")
    left = Path(row.index_path).with_name(f".{Path(row.index_path).name}.abc")
    left.mkdir(parents=True)
    wait_until(lambda: slow.under_way == 1)
    service.stop()
    assert slow.under_way == 0, "its thread ended with it"
    assert state(plane, "fruit") == "scanning"
    again = Scanner(plane.database, plane.settings)
    again.start()
    again.stop()
    with plane.database.session() as session:
        row = datasets.find(session, "fruit")
    assert row.state == "failed"
    assert row.reason == (
        "the server ended during the scan; add it again with: "
        f"ddlp dataset add {images} --name fruit"
    )
    assert not left.exists()


# Registering and removing


def test_a_name_is_given_once_and_a_place_must_be_there_and_allowed(
    plane: Plane, images: Path, tmp_path: Path
) -> None:
    plane.add_dataset(images, "fruit")
    with plane.database.session() as session:
        for uri, error in (
            (images, Conflict),
            (images / "nowhere", InvalidInput),
            (tmp_path, NotAllowed),
        ):
            with pytest.raises(error):
                datasets.add(session, plane.settings, DatasetCreate(uri=str(uri), name="fruit"))


@pytest.mark.parametrize(
    ("file", "name"), [("train.csv", "train"), ("a b.tar", "a-b"), ("photos.v2.npz", "photos")]
)
def test_a_file_gives_its_name_without_its_ending(plane: Plane, file: str, name: str) -> None:
    place = plane.scratch / file
    place.write_bytes(b"")
    with plane.database.session() as session:
        row = datasets.add(session, plane.settings, DatasetCreate(uri=str(place)))
    assert row.name == name


def test_a_dataset_outlives_no_run_that_needs_it_but_the_others(plane: Plane, images: Path) -> None:
    plane.add_dataset(images, "fruit")
    with plane.database.session() as session:
        row = runs.create(session, RunCreate(dataset="fruit", name="r"))
        with pytest.raises(Conflict, match="dataset fruit is used by r; cancel that first"):
            datasets.remove(session, "fruit")
        row.state = RunState.COMPLETED.value
    with plane.database.session() as session:
        datasets.remove(session, "fruit")
    with plane.database.session() as session:
        run = session.get_one(Run, row.id)
        assert run.dataset_id is None
        assert runs.info(session, run).dataset == "fruit"
        with pytest.raises(NotFound, match="dataset fruit of run r was removed"):
            runs.work_spec(session, run)


def test_rejected_files_are_listed_page_by_page(plane: Plane) -> None:
    place = make_images(plane.scratch / "half", 9)
    for path in sorted(place.glob("pear/*.jpg")):
        path.write_bytes(b"nothing")
    plane.add_dataset(place, "half")
    with plane.database.session() as session:
        row = datasets.find(session, "half")
    assert (row.samples, row.rejected) == (6, 3)
    names = [Path(entry.name).name for entry in datasets.rejected(row, 1, 5)]
    assert names == ["0004.jpg", "0007.jpg"]


def test_an_unknown_scan_has_no_progress(service: Scanner) -> None:
    assert service.progress(uuid.uuid4()) is None
    service.forget(uuid.uuid4())
