"""A scan runs in parallel, says how far it is, can be stopped, and always finds the same."""

import errno
import itertools
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.dataset import DatasetIndex, ScanOptions, ScanProgress, scan
from ddlp.core.dataset import progress as progress_module
from ddlp.core.dataset.sources import loose
from ddlp.core.errors import Conflict, InvalidInput, SystemFault
from ddlp.core.image import ImageHead
from tests.core.dataset.making import index_of, names, picture, put, rejected


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports at every opportunity."""
    monkeypatch.setattr(progress_module, "_REPORT_EVERY_S", 0.0)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """500 images, every tenth of them bad."""
    root = tmp_path / "many"
    put(root, *(f"{n % 7}/{n:04d}.jpg" for n in range(500) if n % 10))
    put(root, *(f"{n % 7}/{n:04d}.jpg" for n in range(0, 500, 10)), data=b"no image")
    for path in root.rglob("*.jpg"):
        os.utime(path, ns=(1, 1))
    return root


@pytest.mark.usefixtures("often")
def test_progress_is_reported_up_to_the_end(many: Path, tmp_path: Path) -> None:
    reports: list[ScanProgress] = []
    summary = scan(many, tmp_path / "i.idx", report=reports.append)
    assert (summary.samples, summary.rejected, summary.kind) == (450, 50, "folder")
    last = reports[-1]
    assert (last.found, last.done, last.rejected) == (500, 500, 50)
    assert last.bytes == summary.total_bytes == 450 * len(picture())
    assert last.current.startswith(str(many))
    for before, after in itertools.pairwise(reports):
        assert before.found <= after.found
        assert before.done <= after.done <= after.found
    assert len({report.done for report in reports}) > 5


def test_reports_come_a_few_times_a_second_only(many: Path, tmp_path: Path) -> None:
    reports: list[ScanProgress] = []
    scan(many, tmp_path / "i.idx", report=reports.append)
    assert len({id(report) for report in reports}) < 30
    assert reports[-1].done == 500


def test_what_is_found_does_not_depend_on_the_threads(many: Path, tmp_path: Path) -> None:
    found = []
    for threads in (1, 2, 13):
        into = tmp_path / f"{threads}.idx"
        scan(many, into, ScanOptions(threads=threads))
        found.append(into.read_bytes())
    assert found[0] == found[1] == found[2]


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("after", [0, 1, 5, 12])
def test_a_scan_can_be_stopped_at_any_time_and_leaves_nothing(
    many: Path, tmp_path: Path, after: int
) -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > after

    into = tmp_path / "out" / "i.idx"
    with pytest.raises(Conflict, match=f"the scan of {many} was stopped; nothing of it was kept"):
        scan(many, into, stop=stop)
    assert not into.parent.exists() or not list(into.parent.iterdir())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("scan")]


def test_a_scan_that_waits_for_a_slow_disk_can_be_stopped(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, stopped = threading.Event(), threading.Event()

    def slow(*_: object) -> ImageHead:
        waiting.set()
        stopped.wait(20)
        raise OSError(5, "Input/output error")

    def stop() -> bool:
        if waiting.is_set():
            stopped.set()
        return waiting.is_set()

    monkeypatch.setattr(progress_module, "_REPORT_EVERY_S", 0.0)
    monkeypatch.setattr(loose, "inspect", slow)
    with pytest.raises(Conflict, match="was stopped"):
        scan(many, tmp_path / "i.idx", ScanOptions(threads=2), stop=stop)


@pytest.mark.parametrize("error", [ValueError("odd"), MemoryError(), RecursionError("deep")])
def test_whatever_a_decoder_raises_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    put(tmp_path / "d", "c/1.jpg", "c/2.jpg", "c/3.jpg")
    put(tmp_path / "d", "c/2.jpg", data=picture(width=7))
    whole = loose.inspect

    def moody(file: object, start: int, size: int, how: str) -> ImageHead:
        head = whole(file, start, size, how)  # type: ignore[arg-type]
        if head.width == 7:
            raise error
        return head

    monkeypatch.setattr(loose, "inspect", moody)
    index = index_of(tmp_path / "d")
    assert names(index) == ["c/1.jpg", "c/3.jpg"]
    assert rejected(index)["c/2.jpg"] == (str(error) or type(error).__name__)


def test_a_report_that_fails_ends_the_scan_and_leaves_nothing(many: Path, tmp_path: Path) -> None:
    def report(_: ScanProgress) -> None:
        raise RuntimeError("nobody listens")

    with pytest.raises(RuntimeError, match="nobody listens"):
        scan(many, tmp_path / "out" / "i.idx", report=report)
    assert not list((tmp_path / "out").iterdir())


def test_an_index_stays_as_it_was_when_a_new_scan_fails(many: Path, tmp_path: Path) -> None:
    into = tmp_path / "i.idx"
    scan(many, into)
    before = into.read_bytes()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="holds no images"):
        scan(tmp_path / "empty", into)
    assert into.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"check": "thorough"}, "check='thorough' is neither quick nor full"),
        ({"threads": 0}, "threads=0 is not between 1 and 256"),
        ({"threads": 257}, "threads=257"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        ScanOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ESTALE])
def test_a_machine_in_trouble_stops_a_scan_instead_of_dropping_samples(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, impatient: None, number: int
) -> None:
    real = os.pread

    def failing(fd: int, size: int, at: int) -> bytes:
        if size > 100:
            raise OSError(number, os.strerror(number))
        return real(fd, size, at)

    monkeypatch.setattr(os, "pread", failing)
    name = errno.errorcode[number]
    with pytest.raises(SystemFault, match=rf"read of {many}/.*\.jpg failed with {name} \("):
        scan(many, tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_trouble_that_passes_leaves_no_trace_in_a_scan(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failed = os.open, []

    def failing(path: Any, *arguments: Any, **options: Any) -> int:
        if os.fsdecode(path).endswith(".jpg") and len(failed) < 5:
            failed.append(path)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path, *arguments, **options)

    scan(many, tmp_path / "before")
    monkeypatch.setattr(os, "open", failing)
    scan(many, tmp_path / "index")
    assert len(failed) == 5
    before, index = (DatasetIndex(tmp_path / name) for name in ("before", "index"))
    assert (index.version, index.rejected) == (before.version, before.rejected)
