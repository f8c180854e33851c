"""Scans in the background: progress, failures, datasets removed meanwhile, servers that end."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from ddlp.core.dataset import ScanOptions, ScanProgress, scan_process
from ddlp.core.dataset import scan as real_scan
from ddlp.core.errors import Conflict, NotFound, Unavailable
from ddlp.core.messages import DatasetCreate, RunCreate
from ddlp.server import datasets, runs, scanner
from ddlp.server.database import Database
from ddlp.server.models import Dataset
from ddlp.server.scanner import Scanner
from tests.conftest import make_images, wait_until
from tests.server.conftest import Plane


class SlowScan:
    """A scan that reports something and then waits to be let go, or to be stopped."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.deaf = False
        """Goes on although it is to stop, as a scan does that is all but done."""
        self.checks: list[str] = []
        self.under_way = 0
        self.most = 0
        self._lock = threading.Lock()

    def __call__(
        self,
        uri: Path,
        into: Path,
        options: ScanOptions,
        report: Callable[[ScanProgress], None],
        stop: Callable[[], bool],
    ) -> None:
        with self._lock:
            self.checks.append(options.check)
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        report(ScanProgress(found=9, done=4, rejected=1, bytes=77))
        try:
            if self.deaf:
                real_scan(uri, into, options, report)
            while not self.go.wait(0.01):
                if stop() and not self.deaf:
                    raise Conflict("the scan was stopped")
            if not self.deaf:
                real_scan(uri, into, options, report, stop)
        finally:
            with self._lock:
                self.under_way -= 1


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowScan:
    found = SlowScan()
    monkeypatch.setattr(scanner, "scan_apart", found)
    return found


@pytest.fixture
def service(plane: Plane) -> Iterator[Scanner]:
    found = Scanner(plane.database, plane.settings)
    found.start()
    yield found
    found.stop()


def add(plane: Plane, service: Scanner, place: Path, name: str, check: Any = "quick") -> Dataset:
    body = DatasetCreate(uri=str(place), name=name, check=check)
    with plane.database.session() as session:
        row = datasets.add(session, plane.settings, body)
    service.begin(row)
    return row


def state(plane: Plane, name: str) -> str:
    with plane.database.session() as session:
        return datasets.find(session, name).state


def left_in(plane: Plane) -> list[str]:
    """What lies where the indexes are kept."""
    folder = plane.settings.home / "indexes"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def replace_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: str) -> None:
    """Have scans use a child that does something else when it comes to look at a file."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "another_scan.py").write_text(
        "import os, signal, time\n"
        "from ddlp.core.dataset import scan_process\n"
        "from ddlp.core.dataset.sources import loose\n"
        f"loose.inspect = lambda *_: {deed}\n"
        "scan_process.main()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setattr(scan_process, "_MODULE", "another_scan")
    monkeypatch.setattr(scan_process, "_GRACE_S", 0.1)


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
    wait_until(lambda: slow.under_way == scanner.AT_ONCE)
    slow.go.set()
    wait_until(lambda: all(state(plane, f"fruit-{n}") == "ready" for n in range(5)))
    assert slow.most == scanner.AT_ONCE
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

    monkeypatch.setattr(scanner, "scan_apart", broken)
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
        datasets.remove(session, plane.settings, "fruit")
    service.forget(row.id)
    wait_until(lambda: service.progress(row.id) is None)
    assert left_in(plane) == []
    with plane.database.session() as session, pytest.raises(NotFound):
        datasets.find(session, "fruit")


def test_a_dataset_that_is_removed_when_its_index_is_written_leaves_nothing(
    plane: Plane, service: Scanner, images: Path, slow: SlowScan
) -> None:
    slow.deaf = True
    row = add(plane, service, images, "fruit")
    wait_until(Path(row.index_path).exists)
    with plane.database.session() as session:
        datasets.remove(session, plane.settings, "fruit")
    service.forget(row.id)
    slow.go.set()
    wait_until(lambda: service.progress(row.id) is None)
    assert left_in(plane) == []


def test_a_dataset_that_is_removed_while_a_child_scans_it_leaves_nothing(
    plane: Plane, service: Scanner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_child(tmp_path, monkeypatch, "time.sleep(3600)")
    row = add(plane, service, make_images(plane.scratch / "endless", 3), "fruit")
    wait_until(lambda: left_in(plane))
    with plane.database.session() as session:
        datasets.remove(session, plane.settings, "fruit")
    service.forget(row.id)
    wait_until(lambda: service.progress(row.id) is None)
    assert left_in(plane) == []


def test_a_dataset_that_is_removed_before_its_turn_is_not_scanned(
    plane: Plane, service: Scanner, images: Path, slow: SlowScan
) -> None:
    with plane.database.session() as session:
        row = datasets.add(session, plane.settings, DatasetCreate(uri=str(images), name="fruit"))
    with plane.database.session() as session:
        datasets.remove(session, plane.settings, "fruit")
    service.begin(row)
    wait_until(lambda: service.progress(row.id) is None)
    assert slow.most == 0


def test_a_scan_that_crashes_is_a_scan_that_failed(
    plane: Plane, service: Scanner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_child(tmp_path, monkeypatch, "os.kill(os.getpid(), signal.SIGSEGV)")
    add(plane, service, make_images(plane.scratch / "crash", 3), "fruit")
    wait_until(lambda: state(plane, "fruit") == "failed")
    with plane.database.session() as session:
        assert "was ended by SIGSEGV" in (datasets.find(session, "fruit").reason or "")
    assert left_in(plane) == []


# The database is away for a moment


class Away:
    """A database whose sessions fail when they are to be written, a few times."""

    def __init__(self, database: Database, times: int) -> None:
        self._database = database
        self.times = times

    @contextmanager
    def session(self) -> Iterator[Session]:
        with self._database.session() as session:
            yield session
            if self.times > 0:
                self.times -= 1
                raise OperationalError("commit", {}, Exception("the server closed the connection"))


@pytest.mark.parametrize("place", ["fruit", "nothing"])
def test_the_outcome_is_written_when_the_database_is_back(
    plane: Plane, images: Path, slow: SlowScan, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(scanner, "_AGAIN_S", 0.01)
    database = Away(plane.database, 0)
    service = Scanner(database, plane.settings)  # type: ignore[arg-type]
    service.start()
    row = add(plane, service, images if place == "fruit" else plane.scratch, "fruit")
    wait_until(lambda: slow.under_way == 1)
    database.times = 3
    slow.go.set()
    wait_until(lambda: service.progress(row.id) is None)
    assert database.times == 0
    assert state(plane, "fruit") == ("ready" if place == "fruit" else "failed")
    assert Path(row.index_path).exists() == (place == "fruit")
    service.stop()


def test_a_server_ends_although_the_database_is_away(
    plane: Plane, images: Path, slow: SlowScan
) -> None:
    database = Away(plane.database, 0)
    service = Scanner(database, plane.settings)  # type: ignore[arg-type]
    service.start()
    row = add(plane, service, images, "fruit")
    wait_until(lambda: slow.under_way == 1)
    database.times = 10**9
    slow.go.set()
    wait_until(lambda: database.times < 10**9)
    service.stop()
    assert service.progress(row.id) is None
    assert state(plane, "fruit") == "scanning"


# Servers that end and begin


def test_a_server_does_not_wait_long_for_a_scan_that_does_not_stop(
    plane: Plane, images: Path, slow: SlowScan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "_STOP_S", 0.1)
    service = Scanner(plane.database, plane.settings)
    service.start()
    slow.deaf = True
    row = add(plane, service, images, "fruit")
    wait_until(lambda: slow.under_way == 1)
    service.stop()
    assert slow.under_way == 1
    slow.go.set()
    wait_until(lambda: service.progress(row.id) is None)
    assert state(plane, "fruit") == "scanning"


@pytest.mark.parametrize("check", ["quick", "full"])
def test_what_a_server_was_scanning_when_it_ended_is_begun_again(
    plane: Plane, service: Scanner, images: Path, slow: SlowScan, check: str
) -> None:
    row = add(plane, service, images, "fruit", check)
    wait_until(lambda: slow.under_way == 1)
    service.stop()
    assert slow.under_way == 0, "its thread ended with it"
    assert state(plane, "fruit") == "scanning"
    again = Scanner(plane.database, plane.settings)
    again.start()
    wait_until(lambda: slow.under_way == 1)
    assert again.progress(row.id) is not None
    slow.go.set()
    wait_until(lambda: state(plane, "fruit") == "ready")
    assert slow.checks == [check, check]
    again.stop()


def test_what_is_not_allowed_any_more_is_not_begun_again(plane: Plane, images: Path) -> None:
    with plane.database.session() as session:
        datasets.add(session, plane.settings, DatasetCreate(uri=str(images), name="fruit"))
    narrower = plane.settings.model_copy(update={"dataset_roots": [plane.scratch]})
    service = Scanner(plane.database, narrower)
    service.start()
    wait_until(lambda: state(plane, "fruit") == "failed")
    service.stop()


def test_what_a_killed_scan_left_is_swept_at_the_start(plane: Plane, images: Path) -> None:
    """And nothing else: another database's datasets may have their indexes here."""
    plane.add_dataset(images, "fruit")
    with plane.database.session() as session:
        kept = Path(datasets.find(session, "fruit").index_path)
    folder = kept.parent
    other = f"{uuid.uuid4()}.idx"
    (folder / other).touch()
    (folder / f".{kept.name}.abc").mkdir()
    (folder / f".{kept.name}.abc" / "samples.rows").touch()
    service = Scanner(plane.database, plane.settings)
    service.start()
    service.stop()
    assert left_in(plane) == sorted([kept.name, other])


def test_an_unknown_scan_has_no_progress(service: Scanner) -> None:
    assert service.progress(uuid.uuid4()) is None
    service.forget(uuid.uuid4())
