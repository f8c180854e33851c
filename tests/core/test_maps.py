"""Mappings: kept while files are used again, and no reason to die when a file is cut short."""

import ctypes
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from ddlp.core.errors import DamagedBatch
from ddlp.core.maps import OUTLIVES_LOSS, FileMap, MappedFile, Maps, Unguarded
from tests.core.store.making import folder_in_memory

PAGES = 16
NBYTES = PAGES * mmap.PAGESIZE

pytestmark = pytest.mark.skipif(not OUTLIVES_LOSS, reason="the module in C was not built")


@pytest.fixture(params=["memory", "drive"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BinaryIO]:
    if request.param == "drive":
        with made(tmp_path / "file") as found:
            yield found
        return
    with folder_in_memory() as folder, made(folder / "file") as found:
        yield found


def made(path: Path) -> BinaryIO:
    file = path.open("w+b")
    file.write(b"\7" * NBYTES)
    file.flush()
    return file


def levels(memory: memoryview) -> int:
    return int(np.frombuffer(memory, np.uint8).sum(dtype=np.int64))


@pytest.mark.parametrize("writable", [True, False])
def test_pages_that_are_cut_off_read_as_zeros_and_the_map_says_so(
    file: BinaryIO, writable: bool
) -> None:
    mapped = MappedFile(Maps(writable).map(file, NBYTES), "the file")
    assert levels(mapped.memory) == 7 * NBYTES
    file.truncate(2 * mmap.PAGESIZE)
    assert not mapped.is_whole
    assert not mapped.lost
    assert levels(mapped.memory) == 7 * 2 * mmap.PAGESIZE
    assert mapped.lost
    with pytest.raises(DamagedBatch, match="the file was cut short by another process"):
        mapped.check_whole()


def test_what_is_written_behind_the_end_of_a_file_is_lost_and_known_to_be(file: BinaryIO) -> None:
    mapped = MappedFile(Maps(writable=True).map(file, NBYTES), "the file")
    file.truncate(0)
    np.frombuffer(mapped.memory, np.uint8)[...] = 9
    assert mapped.lost
    assert os.fstat(file.fileno()).st_size == 0


def test_a_file_that_was_cut_short_and_grew_again_is_mapped_anew(file: BinaryIO) -> None:
    maps = Maps(writable=True)
    first = MappedFile(maps.map(file, NBYTES), "the file")
    file.truncate(0)
    levels(first.memory)
    file.seek(0)
    file.write(b"\5" * NBYTES)
    file.flush()
    second = MappedFile(maps.map(file, NBYTES), "the file")
    assert second.is_whole
    assert levels(second.memory) == 5 * NBYTES
    assert first.lost


def test_what_is_copied_by_code_of_others_is_zeros(file: BinaryIO) -> None:
    mapped = MappedFile(Maps(writable=False).map(file, NBYTES), "the file")
    file.truncate(0)
    copied = np.ones(NBYTES, np.uint8)
    place = np.frombuffer(mapped.memory, np.uint8).ctypes.data
    ctypes.CDLL(None).memcpy(ctypes.c_void_p(copied.ctypes.data), ctypes.c_void_p(place), NBYTES)
    assert not copied.any()
    assert mapped.lost


def test_entries_are_used_again_by_later_maps(file: BinaryIO) -> None:
    for _ in range(5000):
        assert FileMap(file.fileno(), NBYTES).guard()


def test_no_more_files_are_mapped_than_can_be_watched(file: BinaryIO) -> None:
    kept = [FileMap(file.fileno(), NBYTES) for _ in range(4096)]
    with pytest.raises(Unguarded, match="too many files are mapped"):
        list(map(FileMap.guard, kept))
    with pytest.raises(Unguarded):
        Maps(writable=False).map(file, NBYTES)
    kept.clear()
    assert Maps(writable=False).map(file, NBYTES)


FOREIGN = """
import faulthandler, mmap, signal, sys, tempfile
from ddlp.core.maps import Maps

ours, theirs = tempfile.TemporaryFile(), tempfile.TemporaryFile()
for file in (ours, theirs):
    file.truncate(8192)
if "before" in sys.argv:
    faulthandler.enable()
watched = Maps(writable=False).map(ours, 8192)
if "after" in sys.argv:
    faulthandler.enable()
watched = Maps(writable=False).map(ours, 8192)
ours.truncate(0)
print("ours:", watched[5000], flush=True)
unwatched = mmap.mmap(theirs.fileno(), 8192)
theirs.truncate(0)
if "sent" in sys.argv:
    signal.raise_signal(signal.SIGBUS)
print("theirs:", unwatched[5000], flush=True)
"""


@pytest.mark.parametrize("how", ["", "before", "after", "sent"])
def test_faults_elsewhere_end_the_process_as_they_did_before(how: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FOREIGN, how], capture_output=True, text=True, timeout=60
    )
    assert ended.stdout == "ours: 0\n"
    assert ended.returncode == -signal.SIGBUS
    assert ended.stderr.count("Bus error") == (how in ("before", "after"))
