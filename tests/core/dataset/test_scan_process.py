"""Scans in a process apart: the same outcome, and nothing left of what crashes or is stopped."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ddlp.core.dataset import DatasetIndex, ScanOptions, ScanProgress, scan, scan_process
from ddlp.core.dataset.scan_process import ScanRequest, scan_apart
from ddlp.core.errors import Conflict, DdlpError, InvalidInput
from tests.conftest import wait_until
from tests.core.dataset.making import put

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a child is tied to us on Linux")

STRANGE = """
import os
import signal
import time

from ddlp.core.dataset import scan_process
from ddlp.core.dataset.sources import loose

inspect, scan = loose.inspect, scan_process.scan


def strange_inspect(file, start, size, how):
    name = os.path.basename(os.readlink(f"/proc/self/fd/{file.fileno()}"))
    if name.startswith("crash"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if name.startswith("hang"):
        time.sleep(3600)
    if name.startswith("slow"):
        time.sleep(0.02)
    os.write(1, b"a decoder prints something")
    return inspect(file, start, size, how)


def strange_scan(uri, *rest):
    if uri.name == "broken":
        raise KeyError("nobody thought of this")
    return scan(uri, *rest)


loose.inspect, scan_process.scan = strange_inspect, strange_scan
scan_process.main()
"""


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child in which the names of files say what becomes of their decoder."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "strange_scan.py").write_text(STRANGE)
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setattr(scan_process, "_MODULE", "strange_scan")


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "indexes").mkdir()
    return tmp_path / "indexes" / "i.idx"


def filled(root: Path, *names: str, data: bytes | None = None) -> Path:
    put(root, *names, data=data)
    return root


def apart(
    data: Path, into: Path, reports: list[ScanProgress] | None = None, threads: int = 1
) -> None:
    seen = [] if reports is None else reports
    scan_apart(data, into, ScanOptions(threads=threads), seen.append, lambda: False)


def test_the_outcome_is_that_of_a_scan_in_this_process(tmp_path: Path, into: Path) -> None:
    data = filled(tmp_path / "data", "a/1.jpg", "b/2.jpg")
    put(data, "a/no.jpg", data=b"no image")
    reports: list[ScanProgress] = []
    apart(data, into, reports, threads=3)
    scan(data, tmp_path / "here.idx")
    assert DatasetIndex(into).version == DatasetIndex(tmp_path / "here.idx").version
    assert (reports[-1].found, reports[-1].done, reports[-1].rejected) == (3, 3, 1)
    assert reports[-1].current == f"{data}/b/2.jpg"
    assert os.listdir(into.parent) == ["i.idx"]


def test_an_error_keeps_its_kind_and_its_words(tmp_path: Path, into: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no images"):
        apart(filled(tmp_path / "data", "a/notes.txt", data=b""), into)
    assert os.listdir(into.parent) == []


def test_the_folders_that_are_allowed_are_passed_on(tmp_path: Path, into: Path) -> None:
    put(tmp_path / "other", "1.jpg")
    data = filled(tmp_path / "data", "a/1.jpg")
    (data / "a" / "2.jpg").symlink_to(tmp_path / "other" / "1.jpg")
    options = ScanOptions(allowed=(data,), check="full")
    with pytest.raises(InvalidInput, match="outside the allowed folders"):
        scan_apart(data, into, options, lambda _: None, lambda: False)


@pytest.mark.usefixtures("strange")
def test_what_nobody_thought_of_is_told_too(tmp_path: Path, into: Path) -> None:
    with pytest.raises(DdlpError, match="KeyError: 'nobody thought of this'"):
        apart(filled(tmp_path / "broken", "a/1.jpg"), into)


@pytest.mark.usefixtures("strange")
def test_a_crash_is_told_with_its_signal_and_the_place(tmp_path: Path, into: Path) -> None:
    data = filled(
        tmp_path / "data", *(f"a/slow{number:02}.jpg" for number in range(96)), "b/crash.jpg"
    )
    words = rf"the scan of {data} was ended by SIGSEGV at or soon after {data}/a/slow\d\d.jpg; "
    with pytest.raises(DdlpError, match=words):
        apart(data, into)
    assert os.listdir(into.parent) == []


@pytest.mark.usefixtures("strange")
def test_a_crash_at_the_very_beginning_is_told_too(tmp_path: Path, into: Path) -> None:
    with pytest.raises(DdlpError, match="was ended by SIGSEGV at one of its first files"):
        apart(filled(tmp_path / "data", "a/crash.jpg"), into)
    assert os.listdir(into.parent) == []


@pytest.mark.usefixtures("strange")
def test_a_scan_that_hangs_is_killed_when_it_is_to_stop(
    tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_process, "_GRACE_S", 0.1)
    data = filled(tmp_path / "data", "a/hang.jpg")
    with pytest.raises(Conflict, match="was stopped; nothing of it was kept"):
        scan_apart(data, into, ScanOptions(), lambda _: None, lambda: any(into.parent.iterdir()))
    assert os.listdir(into.parent) == []


@pytest.mark.usefixtures("strange")
def test_a_child_whose_input_is_closed_stops_and_clears_up(tmp_path: Path, into: Path) -> None:
    data = filled(tmp_path / "data", *(f"a/slow{number:03}.jpg" for number in range(300)))
    request = ScanRequest(uri=data, into=into, allowed=None, check="quick", threads=1)
    child = subprocess.Popen(
        [sys.executable, "-m", "strange_scan", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(request.model_dump_json().encode() + b"\n")
    child.stdin.flush()
    wait_until(lambda: any(into.parent.iterdir()))
    child.send_signal(signal.SIGTERM)  # not for it to heed: its parent closes the pipe
    child.stdin.close()
    with child.stdout as lines:
        last = json.loads(lines.readlines()[-1])
    assert child.wait(20) == 0
    assert (last["status"], last["done"]) == (409, 0)
    assert os.listdir(into.parent) == []


def test_a_child_ends_with_its_parent() -> None:
    somebody_else = 1 if os.getpid() != 1 else 2
    command = [sys.executable, "-m", "ddlp.core.dataset.scan_process", str(somebody_else)]
    assert subprocess.run(command, stdin=subprocess.DEVNULL).returncode == -signal.SIGKILL
