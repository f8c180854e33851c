"""Reads in place: the arrays are the file's own memory, until it is given back."""

import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from ddlp.core.errors import DamagedBatch
from ddlp.core.maps import FileMap, Maps, Unguarded
from ddlp.core.store import FolderStore, path_of, run_folder
from ddlp.loader.readers import files as files_module
from ddlp.loader.readers.base import Wanted
from ddlp.loader.readers.mapped import MappedReader, NotByMap
from tests.core.store.making import RUN, batch_id, files, folder_in_memory, write


@pytest.fixture
def root() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture
def store(root: Path) -> FolderStore:
    return FolderStore(root)


@pytest.fixture
def reader() -> Iterator[MappedReader]:
    reader = MappedReader()
    yield reader
    reader.close()


def written(store: FolderStore, index: int = 0, value: int = 7) -> Wanted:
    batch = batch_id(index=index, token=index + 1)
    stored = write(store, batch, value)
    return Wanted(batch, stored.checksum, stored.nbytes, stored.location)


def test_the_arrays_are_the_file_itself(reader: MappedReader, store: FolderStore) -> None:
    wanted = written(store)
    loaded = reader.read(wanted)
    assert loaded.borrowed
    images = np.asarray(loaded.tensors["images"])
    assert images.flags.writeable
    images[...] = 99
    assert path_of(wanted.location).read_bytes().count(99) >= images.size


def test_a_file_that_is_used_again_is_mapped_once(reader: MappedReader, store: FolderStore) -> None:
    places = set()
    for index in range(5):
        loaded = reader.read(written(store, index))
        places.add(np.asarray(loaded.tensors["images"]).ctypes.data)
        loaded.give_back()
    assert len(places) == 1


def test_what_was_given_back_lies_free(
    reader: MappedReader, store: FolderStore, root: Path
) -> None:
    loaded = reader.read(written(store))
    loaded.give_back()
    loaded.give_back()
    assert files(root) == [f"{run_folder(RUN)}/free/00000-00000000-1"]


def test_a_file_that_may_not_be_written_to_is_mapped_for_reading(
    reader: MappedReader, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = written(store)
    real = os.access

    def refuse(path: Path, mode: int) -> bool:
        return not mode & os.W_OK and real(path, mode)

    monkeypatch.setattr(os, "access", refuse)
    images = np.asarray(reader.read(wanted).tensors["images"])
    assert (images == 7).all()
    assert not images.flags.writeable


def test_on_a_read_only_mount_batches_are_read_and_stay(
    store: FolderStore, root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = written(store)
    bind = ["mount", "--bind", str(root), str(tmp_path)]
    only = ["mount", "-o", "remount,bind,ro", str(tmp_path)]
    if os.geteuid() or any(subprocess.run(c, capture_output=True).returncode for c in (bind, only)):
        pytest.skip("a mount needs rights that are not there")
    try:
        location = wanted.location.replace(str(root), str(tmp_path))
        seen = Wanted(wanted.batch, wanted.checksum, wanted.nbytes, location)
        reader = MappedReader()
        loaded = reader.read(seen)
        assert not np.asarray(loaded.tensors["images"]).flags.writeable
        caplog.set_level(logging.WARNING)
        loaded.give_back()
        assert "stays until its run ends" in caplog.text
        assert path_of(wanted.location).exists()
        del loaded
        reader.close()
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_what_cannot_be_given_back_is_logged(
    reader: MappedReader,
    store: FolderStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    wanted = written(store)
    loaded = reader.read(wanted)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files_module, "release", refuse)
    caplog.set_level(logging.WARNING)
    loaded.give_back()
    assert str(path_of(wanted.location)) in caplog.text


def test_a_reader_that_was_closed_leaves_its_arrays_alone(store: FolderStore) -> None:
    reader = MappedReader()
    images = np.asarray(reader.read(written(store)).tensors["images"])
    reader.close()
    assert (images == 7).all()


def test_a_file_that_is_cut_short_while_it_is_checked_is_damaged(
    reader: MappedReader, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = written(store)
    map_file = Maps.map

    def cut(maps: Maps, file: BinaryIO, nbytes: int) -> memoryview:
        memory = map_file(maps, file, nbytes)
        os.truncate(path_of(wanted.location), 4096)
        return memory

    monkeypatch.setattr(Maps, "map", cut)
    with pytest.raises(DamagedBatch, match="was cut short by another process while it was in use"):
        reader.read(wanted)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_to_is_not_mapped(
    reader: MappedReader, store: FolderStore, mode: int
) -> None:
    wanted = written(store)
    path_of(wanted.location).chmod(mode)
    with pytest.raises(NotByMap, match=rf"others may write to its files \(mode {mode:04o}\)"):
        reader.read(wanted)


def test_a_file_of_another_user_is_not_mapped(
    reader: MappedReader, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = written(store)
    owner = path_of(wanted.location).stat().st_uid
    if owner == 0:
        os.chown(path_of(wanted.location), 1000, -1)
        owner = 1000
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(NotByMap, match=rf"its files are another user's \(uid {owner}\)"):
        reader.read(wanted)


def test_a_file_that_cannot_be_watched_is_copied(
    reader: MappedReader, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = written(store)

    def full(_: FileMap) -> bool:
        raise Unguarded("too many files are mapped")

    monkeypatch.setattr(FileMap, "guard", full)
    with pytest.raises(NotByMap, match="too many files are mapped"):
        reader.read(wanted)
