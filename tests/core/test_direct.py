"""Transfers past the page cache: whole, in slices, and never into what is another's by then."""

import errno
import mmap
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddlp.core import direct
from ddlp.core.direct import DirectFiles, PageMemory, page_memory
from ddlp.core.errors import SystemFault
from ddlp.core.filesystem import direct_refusal

SLICE = 64 << 10


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DirectFiles]:
    refusal = direct_refusal(tmp_path)
    if refusal is not None:
        pytest.skip(refusal)
    monkeypatch.setattr(direct, "SLICE_BYTES", SLICE)
    files = DirectFiles()
    yield files
    files.close()


def filled(nbytes: int) -> memoryview:
    memory = memoryview(page_memory(nbytes))[:nbytes]
    memory[:] = os.urandom(nbytes)
    return memory


def save(files: DirectFiles, path: Path, memory: memoryview) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    try:
        files.write(descriptor, memory)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("nbytes", [4096, SLICE, SLICE + 4096, 7 * SLICE])
def test_what_was_written_is_read(files: DirectFiles, tmp_path: Path, nbytes: int) -> None:
    memory = filled(nbytes)
    save(files, tmp_path / "file", memory)
    assert (tmp_path / "file").read_bytes() == memory
    found = memoryview(page_memory(nbytes))[:nbytes]
    assert files.read(tmp_path / "file", found) == nbytes
    assert found == memory


@pytest.mark.parametrize("there", [0, 100, 4096, SLICE - 1, SLICE, SLICE + 5000, 3 * SLICE - 1])
def test_a_file_that_is_shorter_says_how_much_was_there(
    files: DirectFiles, tmp_path: Path, there: int
) -> None:
    raw = os.urandom(there)
    (tmp_path / "file").write_bytes(raw)
    found = memoryview(page_memory(3 * SLICE))
    assert files.read(tmp_path / "file", found) == there
    assert found[:there] == raw


def test_a_transfer_in_pieces_is_put_together(
    files: DirectFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.preadv, os.pwrite
    monkeypatch.setattr(os, "preadv", lambda fd, parts, at: read(fd, [parts[0][:8192]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, part, at: write(fd, part[:4096], at))
    memory = filled(3 * SLICE)
    save(files, tmp_path / "file", memory)
    found = memoryview(page_memory(3 * SLICE))
    assert files.read(tmp_path / "file", found) == 3 * SLICE
    assert found == memory


def test_a_write_that_is_refused_in_the_middle_says_why(
    files: DirectFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite

    def scarce(descriptor: int, part: memoryview, at: int) -> int:
        if at + len(part) > SLICE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, part, at)

    monkeypatch.setattr(os, "pwrite", scarce)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as caught:
        save(files, tmp_path / "file", filled(4 * SLICE))
    assert caught.value.errno == errno.ENOSPC


def test_a_drive_that_takes_nothing_does_not_keep_us_for_ever(
    impatient: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = DirectFiles()
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    said = rf"pwrite of {tmp_path}/file failed with EIO \(nothing was written at byte 0\)"
    with pytest.raises(SystemFault, match=said):
        save(files, tmp_path / "file", filled(4096))


def test_a_failed_transfer_ends_only_when_all_of_its_slices_have(
    files: DirectFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a late slice would go to whatever has its descriptor by then."""
    (tmp_path / "file").write_bytes(bytes(4 * SLICE))
    real, under_way, first_failed = os.preadv, [], threading.Event()

    def slow(descriptor: int, parts: list[memoryview], at: int) -> int:
        if at == 0:
            first_failed.set()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        under_way.append(at)
        first_failed.wait(10)
        time.sleep(0.1)
        moved = real(descriptor, parts, at)
        under_way.remove(at)
        return moved

    monkeypatch.setattr(os, "preadv", slow)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        files.read(tmp_path / "file", memoryview(page_memory(4 * SLICE)))
    assert under_way == []


def test_no_descriptor_stays_open(files: DirectFiles, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(4096))
    files.read(tmp_path / "file", memoryview(page_memory(4096)))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        files.read(tmp_path / "file", memoryview(page_memory(4096)))
        with pytest.raises(FileNotFoundError):
            files.read(tmp_path / "none", memoryview(page_memory(4096)))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("nbytes", [0, 1, mmap.PAGESIZE, mmap.PAGESIZE + 1])
def test_memory_is_whole_pages(nbytes: int) -> None:
    memory = page_memory(nbytes)
    assert len(memory) % mmap.PAGESIZE == 0
    assert len(memory) >= max(1, nbytes)


def place(memory: memoryview) -> int:
    import numpy as np

    return int(np.frombuffer(memory, np.uint8).ctypes.data)


def test_memory_is_kept_for_the_next_transfer_until_it_is_let_go() -> None:
    pages = PageMemory()
    with pages.taken(10_000) as first:
        assert len(first) == 10_000
        at = place(first)
        first[:3] = b"abc"
    with pages.taken(5_000) as second:
        assert place(second) == at
        assert second[:3] == b"abc"
    pages.relax()
    with pages.taken(5_000) as third:
        assert third[:3] == bytes(3)


def test_two_transfers_at_once_have_memory_of_their_own() -> None:
    pages = PageMemory()
    with pages.taken(5_000) as first, pages.taken(5_000) as second:
        assert place(first) != place(second)


def test_memory_grows_where_more_is_needed() -> None:
    pages = PageMemory()
    with pages.taken(4096):
        pass
    with pages.taken(1 << 20) as large:
        assert len(large) == 1 << 20
        large[-1] = 1


def test_memory_is_asked_for_again_where_there_is_none_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, left = mmap.mmap, [errno.ENOMEM] * 5

    def refuse(*arguments: Any, **options: Any) -> mmap.mmap:
        if left:
            raise OSError(left.pop(), os.strerror(errno.ENOMEM))
        return real(*arguments, **options)

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert len(page_memory(1)) == mmap.PAGESIZE
