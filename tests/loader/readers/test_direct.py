"""Reads past the page cache, into memory that begins at a page and is used again."""

import errno
import mmap
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ddlp.core.direct import DirectFiles, Reading
from ddlp.core.errors import DamagedBatch, InvalidInput, MissingBatch, SystemFault, Unavailable
from ddlp.core.filesystem import direct_refusal
from ddlp.core.store import FolderStore, path_of
from ddlp.loader.buffers import Buffers
from ddlp.loader.readers.base import Wanted
from ddlp.loader.readers.direct import DirectReader
from tests.core.store.making import batch_id, files, write

BATCH = batch_id(samples=32)


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    refusal = direct_refusal(tmp_path)
    if refusal is not None:
        pytest.skip(refusal)
    return tmp_path


@pytest.fixture
def wanted(drive: Path, tmp_path: Path) -> Wanted:
    stored = write(FolderStore(tmp_path / "a store"), BATCH, value=7, side=128)
    return Wanted(BATCH, stored.checksum, stored.nbytes, stored.location)


@pytest.fixture
def reader() -> Iterator[DirectReader]:
    reader = DirectReader(Buffers())
    yield reader
    reader.close()


def test_files_are_opened_past_the_page_cache(
    reader: DirectReader, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags: list[int] = []
    real = os.open

    def listen(path: Path, how: int, *rest: int) -> int:
        flags.append(how)
        return real(path, how, *rest)

    monkeypatch.setattr(os, "open", listen)
    reader.read(wanted)
    assert any(how & os.O_DIRECT for how in flags)


def test_tensors_begin_at_a_page_and_can_be_written_to(
    reader: DirectReader, wanted: Wanted
) -> None:
    loaded = reader.read(wanted)
    images = np.asarray(loaded.tensors["images"])
    assert images.ctypes.data % mmap.PAGESIZE == 0
    images += 1
    assert (images == 8).all()
    assert not loaded.borrowed


def test_what_is_given_back_takes_nothing_from_the_arrays(
    reader: DirectReader, wanted: Wanted, tmp_path: Path
) -> None:
    loaded = reader.read(wanted)
    loaded.give_back()
    write(FolderStore(tmp_path / "a store"), batch_id(index=1, token=2, samples=32), side=128)
    assert (np.asarray(loaded.tensors["images"]) == 7).all()
    assert len(files(tmp_path)) == 1


def test_memory_is_used_again_once_nobody_holds_it(reader: DirectReader, wanted: Wanted) -> None:
    held = [np.asarray(reader.read(wanted).tensors["images"]) for _ in range(3)]
    places = {array.ctypes.data for array in held}
    assert len(places) == 3
    del held[1]
    again = np.asarray(reader.read(wanted).tensors["images"])
    assert again.ctypes.data in places
    assert again.ctypes.data not in {array.ctypes.data for array in held}


def test_small_batches_of_any_size_are_read(reader: DirectReader, tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for samples in range(1, 9):
        batch = batch_id(index=samples, samples=samples)
        stored = write(store, batch, value=samples, side=7)
        found = reader.read(Wanted(batch, stored.checksum, stored.nbytes, stored.location))
        assert (np.asarray(found.tensors["images"]) == samples).all()


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.EBADMSG, DamagedBatch),
        (errno.EIO, SystemFault),
        (errno.ESTALE, SystemFault),
        (errno.ENOENT, MissingBatch),
        (errno.EACCES, Unavailable),
        (errno.EINVAL, Unavailable),
    ],
)
def test_only_what_can_be_made_again_counts_as_damaged(
    reader: DirectReader,
    wanted: Wanted,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    error: type[Exception],
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(error, match=str(path_of(wanted.location))):
        reader.read(wanted)


def test_a_file_that_is_cut_short_while_it_is_read_is_found(
    reader: DirectReader, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.preadv

    def cut(*arguments: object) -> int:
        os.truncate(path_of(wanted.location), 4096)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "preadv", cut)
    with pytest.raises(DamagedBatch, match=f"has 4096 bytes, not {wanted.nbytes}"):
        reader.read(wanted)


def test_another_kind_of_address_is_said(reader: DirectReader, wanted: Wanted) -> None:
    with pytest.raises(InvalidInput, match="not a file"):
        reader.read(replace(wanted, location="s3://bucket/x"))


def test_a_batch_that_is_expected_is_begun_with_and_read_once(
    drive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Path] = []
    begin = DirectFiles.begin_read

    def note(self: DirectFiles, path: Path, memory: memoryview) -> Reading:
        begun.append(path)
        return begin(self, path, memory)

    monkeypatch.setattr(DirectFiles, "begin_read", note)
    store, reader = FolderStore(drive), DirectReader(Buffers())
    wanted = []
    for index in range(5):
        batch = batch_id(index, index + 1)
        stored = write(store, batch, index)
        wanted.append(Wanted(batch, stored.checksum, stored.nbytes, stored.location))
    for place, one in enumerate(wanted[:4]):
        for soon in wanted[place : place + 2]:
            reader.expect(soon)
        images = reader.read(one).tensors["images"]
        assert isinstance(images, np.ndarray)
        assert (images == place).all()
    assert len(begun) == 5, "the last one was begun with, and never asked for"
    reader.close()


def test_what_was_expected_and_is_not_asked_for_makes_room(drive: Path) -> None:
    store, reader = FolderStore(drive), DirectReader(Buffers())
    for index in range(6):
        batch = batch_id(index, index + 1)
        stored = write(store, batch, index)
        reader.expect(Wanted(batch, stored.checksum, stored.nbytes, stored.location))
    assert len(reader._begun) == 2
    reader.close()
    assert not reader._begun


def test_what_is_wrong_with_an_expected_batch_is_said_when_it_is_read(drive: Path) -> None:
    reader, batch = DirectReader(Buffers()), batch_id()
    stored = write(FolderStore(drive), batch)
    wanted = Wanted(batch, stored.checksum, stored.nbytes, stored.location)
    path_of(stored.location).unlink()
    reader.expect(wanted)
    with pytest.raises(MissingBatch):
        reader.read(wanted)
    stored = write(FolderStore(drive), batch)
    with path_of(stored.location).open("r+b") as file:
        file.seek(5000)
        file.write(b"\x55")
    reader.expect(wanted)
    with pytest.raises(DamagedBatch, match="the payload's checksum is wrong"):
        reader.read(wanted)
    reader.close()
