"""A store is bounded: by its filesystem, by its quota, and a full one is one clear error."""

import errno
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddlp.core import direct as direct_module
from ddlp.core.batchfile import batch_tensors, layout
from ddlp.core.codecs import Codec
from ddlp.core.errors import NoRoom, SystemFault
from ddlp.core.store import FolderStore, StoredBatch, path_of, read_batch, release, store_limit
from ddlp.core.store.room import check_room, usable_bytes, used_bytes
from tests.core.store.making import (
    OTHER_RUN,
    RUN,
    Arrays,
    batch_id,
    files,
    folder_in_memory,
    write,
)

BATCH_BYTES = layout(batch_tensors(4, (32, 32, 3), "uint8"))[1]
REMEDY = "DDLP_CPU_STORE or DDLP_CSD_STORE"


def until_full(
    store: FolderStore, run: uuid.UUID, samples: int = 4, side: int = 32
) -> Iterator[StoredBatch]:
    """Write batches until there is no room."""
    for index in range(100):
        try:
            yield write(store, batch_id(index=index, samples=samples, run=run), side=side)
        except NoRoom:
            return
    raise AssertionError("it is never full")


@pytest.fixture(params=[Codec.OFF, Codec.ZLIB])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FolderStore]:
    """A store on a real filesystem of 128 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a mount needs rights that are not there")
    yield FolderStore(place, codec=request.param)
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(small_disk: FolderStore) -> None:
    with pytest.raises(NoRoom) as caught:
        write(small_disk, batch_id(samples=64))
    message = str(caught.value)
    assert message.startswith(f"no room for another batch at {small_disk.root} (")
    assert "mount -o remount,size=" in message
    assert REMEDY in message
    assert files(small_disk.root) == []
    write(small_disk, batch_id(), side=8)


def test_a_recycled_file_that_cannot_grow_on_a_full_disk_leaves_nothing(
    small_disk: FolderStore,
) -> None:
    release(path_of(write(small_disk, batch_id(), side=8).location))
    with pytest.raises(NoRoom, match="no room"):
        write(small_disk, batch_id(token=2, samples=64))
    assert files(small_disk.root) == []
    write(small_disk, batch_id(token=3), side=8)


def test_a_disk_fills_up_and_is_used_again(small_disk: FolderStore) -> None:
    written = list(until_full(small_disk, RUN))
    assert 3 <= len(written) <= 32
    assert len(files(small_disk.root)) == len(written)
    release(path_of(written[0].location))
    write(small_disk, batch_id(index=200))


def test_on_a_full_disk_a_run_takes_what_another_left_free(small_disk: FolderStore) -> None:
    written = list(until_full(small_disk, RUN))
    for stored in written:
        release(path_of(stored.location))
    write(small_disk, batch_id(run=OTHER_RUN))


def test_a_larger_batch_takes_the_room_of_several_that_lie_free(small_disk: FolderStore) -> None:
    for stored in list(until_full(small_disk, RUN)):
        release(path_of(stored.location))
    for run in (RUN, OTHER_RUN):
        stored = write(small_disk, batch_id(token=99, samples=24, run=run))
        release(path_of(stored.location))


@pytest.fixture(params=["memory", "drive", "compressed"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FolderStore]:
    codec = Codec.ZLIB if request.param == "compressed" else Codec.OFF
    if request.param == "memory":
        with folder_in_memory() as folder:
            yield FolderStore(folder, codec=codec)
    else:
        yield FolderStore(tmp_path, codec=codec)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("step", ["mkdir", "rename", "posix_fallocate", "pwrite", "ftruncate"])
def test_a_disk_that_fills_up_at_any_step_leaves_nothing(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    write(store, batch_id(index=9))  # what is found out once is known
    asked: list[str] = []

    def refuse(*_: object, **__: object) -> int:
        asked.append(step)
        raise OSError(number, os.strerror(number))

    real = getattr(os, step)
    monkeypatch.setattr(os, step, refuse)
    try:
        write(store, batch_id(run=OTHER_RUN))
    except NoRoom as error:
        assert os.strerror(number) in str(error)  # noqa: PT017
        assert REMEDY in str(error)  # noqa: PT017
        assert asked
        assert len(files(store.root)) == 1
    else:
        assert not asked  # a mapped file is not written, nor cut
    monkeypatch.setattr(os, step, real)
    write(store, batch_id(index=1))


def test_a_drive_that_takes_only_a_part_says_why_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where blocks are found only when they are written: thin volumes, or copies on write."""
    real, left = os.pwrite, 8192

    def scarce(descriptor: int, part: memoryview, at: int) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = real(descriptor, part[: min(len(part), left)], at)
        left -= done
        return done

    monkeypatch.setattr(direct_module.os, "pwrite", scarce)
    store = FolderStore(tmp_path, codec=Codec.ZLIB)
    with pytest.raises(NoRoom, match=os.strerror(errno.ENOSPC)):
        write(store, batch_id(samples=64), fill=noise)
    assert files(tmp_path) == []


def noise(arrays: Arrays) -> int:
    for array in arrays.values():
        array.reshape(-1).view("u1")[:] = list(os.urandom(array.nbytes))
    return len(arrays["images"])


def test_other_failures_are_not_called_full(
    impatient: None, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(SystemFault, match=r"fallocate of .*/making/1-\w+ failed with EIO \(Input"):
        write(store, batch_id())
    assert files(store.root) == []


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOMEM])
@pytest.mark.parametrize(
    "call", ["open", "rename", "scandir", "posix_fallocate", "statvfs", "pwrite", "mkdir"]
)
def test_an_error_that_passes_does_not_fail_a_batch(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    real, left = getattr(os, call), [number] * 5

    def fail(*arguments: Any, **options: Any) -> Any:
        if left and str(arguments[0]).startswith(str(store.root)) == (not call.startswith("p")):
            raise OSError(left.pop(), os.strerror(number))
        return real(*arguments, **options)

    monkeypatch.setattr(os, call, fail)
    stored = write(store, batch_id(), value=5)
    arrays = read_batch(path_of(stored.location), batch_id(), stored.checksum)
    assert (arrays["images"] == 5).all()


def bounded(root: Path, batches: float) -> FolderStore:
    return FolderStore(root, quota_bytes=int(batches * BATCH_BYTES))


def test_a_quota_is_for_all_runs_together(store: FolderStore) -> None:
    first, second = bounded(store.root, 3), bounded(store.root, 3)
    for index in range(2):
        write(first, batch_id(index=index))
    write(second, batch_id(run=OTHER_RUN))
    for run_store, batch in ((first, batch_id(index=5)), (second, batch_id(5, run=OTHER_RUN))):
        with pytest.raises(NoRoom) as caught:
            write(run_store, batch)
        message = str(caught.value)
        assert f"{store.root} has used up its quota of {3 * BATCH_BYTES} bytes" in message
        assert "raise DDLP_STORE_QUOTA_BYTES, cancel runs" in message
    assert len(files(store.root)) == 3


def test_a_run_takes_what_another_left_free_where_the_quota_is_used_up(store: FolderStore) -> None:
    first, second = bounded(store.root, 3), bounded(store.root, 3)
    written = [write(first, batch_id(index=index)) for index in range(3)]
    for stored in written:
        release(path_of(stored.location))
    for index in range(3):
        write(second, batch_id(index=index, run=OTHER_RUN))
    assert used_bytes(store.root, "ddlp-run-") <= 3 * BATCH_BYTES
    with pytest.raises(NoRoom):
        write(first, batch_id(index=7))


@pytest.mark.parametrize(("side", "samples"), [(8, 4), (64, 4), (32, 9)])
def test_batches_of_other_sizes_keep_to_the_quota_too(
    store: FolderStore, side: int, samples: int
) -> None:
    quota = 6 * BATCH_BYTES
    first = FolderStore(store.root, quota_bytes=quota)
    second = FolderStore(store.root, quota_bytes=quota)
    written = [write(first, batch_id(index=index)) for index in range(6)]
    for stored in written:
        release(path_of(stored.location))
    assert len(list(until_full(second, OTHER_RUN, samples, side))) >= 1
    assert used_bytes(store.root, "ddlp-run-") <= quota


def test_within_its_quota_a_run_leaves_the_files_of_others(store: FolderStore) -> None:
    first, second = bounded(store.root, 9), bounded(store.root, 9)
    release(path_of(write(first, batch_id()).location))
    write(second, batch_id(run=OTHER_RUN))
    assert len(files(store.root)) == 2


def test_it_says_how_full_it_is(store: FolderStore) -> None:
    assert store.room().used_bytes == 0
    stored = write(store, batch_id())
    room = store.room()
    assert room.used_bytes is not None
    assert room.used_bytes >= stored.nbytes
    assert room.free_bytes is not None
    assert 0 < room.free_bytes <= usable_bytes(store.root) + (64 << 20)
    assert bounded(store.root, 0.5).room().free_bytes == 0
    left = bounded(store.root, 10).room().free_bytes
    assert left == 10 * BATCH_BYTES - room.used_bytes


def test_a_store_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    room = FolderStore(tmp_path / "not" / "yet").room()
    assert room.used_bytes == 0
    assert room.free_bytes


def test_a_run_gets_a_share_of_a_store() -> None:
    assert store_limit(10, 1000) == 90
    assert store_limit(10, 1000, free_bytes=500) == 25
    assert store_limit(10, 1000, free_bytes=0) == 2


def test_a_store_that_is_too_small_for_a_run_is_said_with_the_remedy() -> None:
    assert check_room("/x", 4, 1 << 20, 6 << 20) is None
    assert check_room("/x", 4, 1 << 20, None) is None
    problem = check_room("/x", 4, 1 << 20, (6 << 20) - 1)
    assert problem is not None
    assert "/x has room for 6.0 MiB and needs 6.0 MiB" in problem
    assert REMEDY in problem
