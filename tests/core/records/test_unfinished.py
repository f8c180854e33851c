"""Files are whole or absent, and what the dead left is swept."""

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlp.core.errors import NoRoom, SystemFault
from ddlp.core.records.unfinished import sweep, whole_or_absent
from tests.conftest import wait_until


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    with whole_or_absent(tmp_path / "a") as file:
        file.write(b"all of it")
        assert not (tmp_path / "a").exists()
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"all of it"


def fail(path: Path, error: BaseException) -> None:
    with whole_or_absent(path) as file:
        file.write(b"half")
        raise error


@pytest.mark.parametrize("error", [KeyError(), KeyboardInterrupt(), OSError(errno.EROFS, "it")])
def test_what_goes_wrong_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    (tmp_path / "a").write_bytes(b"before")
    with pytest.raises(type(error)):
        fail(tmp_path / "a", error)
    assert (tmp_path / "a").read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["a"]


def test_a_drive_that_fails_is_named_with_call_and_error(tmp_path: Path) -> None:
    with pytest.raises(SystemFault, match=rf"write of {tmp_path}/a failed with EIO \(broken\)"):
        fail(tmp_path / "a", OSError(errno.EIO, "broken"))
    assert os.listdir(tmp_path) == []


WRITER = """
import sys, time
from pathlib import Path
from ddlp.core.records.unfinished import whole_or_absent
with whole_or_absent(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(600)
"""


def test_only_what_nobody_holds_is_swept(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "theirs")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with whole_or_absent(tmp_path / "ours"):
            sweep(tmp_path)
            assert len(os.listdir(tmp_path)) == 2
        assert len(os.listdir(tmp_path)) == 2
        writer.kill()
    with whole_or_absent(tmp_path / "next"):
        assert len(os.listdir(tmp_path)) == 2
    assert sorted(os.listdir(tmp_path)) == ["next", "ours"]


def test_sweeping_and_writing_at_once_lose_nothing(tmp_path: Path) -> None:
    done = threading.Event()

    def keep_sweeping() -> None:
        while not done.is_set():
            sweep(tmp_path)

    sweeper = threading.Thread(target=keep_sweeping)
    sweeper.start()
    try:
        for number in range(100):
            with whole_or_absent(tmp_path / str(number)) as file:
                file.write(b"x")
    finally:
        done.set()
        sweeper.join()
    wait_until(lambda: len(os.listdir(tmp_path)) == 100)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real filesystem of 128 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a mount needs rights that are not there")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("size", [130 << 10, 8 << 20])
def test_a_full_disk_is_one_clear_error_and_leaves_nothing(small_disk: Path, size: int) -> None:
    with (
        pytest.raises(NoRoom, match=f"no room for {small_disk}/a .*tmpfs on {small_disk}"),
        whole_or_absent(small_disk / "a") as file,
    ):
        file.write(b"x" * size)
    assert os.listdir(small_disk) == []
