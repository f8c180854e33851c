"""The batch store: a batch is there whole or not at all, and consumed files are used again."""

import errno
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddlp.core.batchfile import PAGE_BYTES, Array, BatchId, batch_tensors, payload_checksum
from ddlp.core.errors import DamagedBatch, MissingBatch, Unavailable
from ddlp.core.store import RUN_PREFIX, BatchStore, StoredBatch, batch_path, read_batch, release

RUN = uuid.UUID(int=7)
Arrays = dict[str, Array]


def batch_id(index: int = 0, token: int = 1, samples: int = 4) -> BatchId:
    return BatchId(RUN, 0, index, token, samples, "cd" * 32, "pillow-1", "host")


def filler(value: int) -> Callable[[Arrays], int]:
    def fill(arrays: Arrays) -> int:
        for array in arrays.values():
            array[...] = value
        return len(arrays["images"])

    return fill


def write(store: BatchStore, batch: BatchId, value: int = 1, side: int = 32) -> StoredBatch:
    return store.write(batch, batch_tensors(batch.samples, (side, side, 3), "uint8"), filler(value))


def read(path: Path, expected: BatchId) -> Arrays:
    """Read a batch as one that was committed as it lies there."""
    there = path.exists() and path.stat().st_size >= PAGE_BYTES
    checksum = payload_checksum(memoryview(path.read_bytes())) if there else 0
    return read_batch(path, expected, checksum)


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.fixture
def store(tmp_path: Path) -> BatchStore:
    return BatchStore(tmp_path / "store")


def test_what_was_written_is_read(store: BatchStore) -> None:
    stored = write(store, batch_id(), value=9)
    arrays = read(stored.path, batch_id())
    assert arrays["images"].shape == (4, 32, 32, 3)
    assert all((array == 9).all() for array in arrays.values())


def test_a_finished_batch_lies_where_everyone_can_work_out(store: BatchStore) -> None:
    stored = write(store, batch_id(index=12, token=345))
    assert stored.path == batch_path(store.root, RUN, 0, 12, 345)
    assert stored.nbytes == stored.path.stat().st_size
    assert files(store.root) == [f"{RUN_PREFIX}{RUN}/00000-00000012-345"]


def test_what_is_read_cannot_be_written_to(store: BatchStore) -> None:
    arrays = read(write(store, batch_id()).path, batch_id())
    with pytest.raises(ValueError, match="read-only"):
        arrays["images"][0] = 0


def test_nothing_is_visible_before_it_is_complete(store: BatchStore) -> None:
    final = batch_path(store.root, RUN, 0, 0, 1)
    seen: list[bool] = []

    def fill(arrays: Arrays) -> int:
        seen.append(final.exists())
        return filler(3)(arrays)

    store.write(batch_id(), batch_tensors(4, (8, 8, 3), "uint8"), fill)
    assert seen == [False]
    assert final.exists()


@pytest.mark.parametrize("error", [ValueError, MemoryError, KeyboardInterrupt, SystemExit])
def test_a_batch_that_fails_half_way_leaves_nothing(
    store: BatchStore, error: type[BaseException]
) -> None:
    def fill(arrays: Arrays) -> int:
        arrays["images"][:2] = 1
        raise error

    with pytest.raises(error):
        store.write(batch_id(), batch_tensors(4, (8, 8, 3), "uint8"), fill)
    assert files(store.root) == []


def test_a_batch_that_fails_in_a_recycled_file_leaves_nothing(store: BatchStore) -> None:
    release(write(store, batch_id()).path)

    def fill(arrays: Arrays) -> int:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        store.write(batch_id(token=2), batch_tensors(4, (8, 8, 3), "uint8"), fill)
    assert files(store.root) == []


def test_a_writer_that_is_killed_leaves_nothing_that_could_be_read(store: BatchStore) -> None:
    program = f"""
import os, signal, sys, uuid
from pathlib import Path
from ddlp.core.batchfile import BatchId, batch_tensors
from ddlp.core.store import BatchStore

def fill(arrays):
    arrays["images"][:] = 1
    os.kill(os.getpid(), signal.SIGKILL)

batch = BatchId(uuid.UUID(int=7), 0, 0, 1, 4, "cd" * 32, "pillow-1", "host")
BatchStore(Path({str(store.root)!r})).write(batch, batch_tensors(4, (8, 8, 3), "uint8"), fill)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    (left,) = files(store.root)
    assert left.startswith(f"{RUN_PREFIX}{RUN}/making/1-")
    stored = write(store, batch_id(token=2), value=5)
    assert (read(stored.path, batch_id(token=2))["images"] == 5).all()


def test_a_consumed_file_is_used_again(store: BatchStore) -> None:
    stored = write(store, batch_id())
    inode = stored.path.stat().st_ino
    release(stored.path)
    assert not stored.path.exists()
    again = write(store, batch_id(index=1, token=2))
    assert again.path.stat().st_ino == inode
    assert files(store.root) == [f"{RUN_PREFIX}{RUN}/00000-00000001-2"]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 60)), min_size=2, max_size=6))
def test_a_larger_or_smaller_batch_in_a_recycled_file_is_right(
    store: BatchStore, sizes: list[tuple[int, int]]
) -> None:
    for number, (samples, side) in enumerate(sizes):
        batch = batch_id(index=number, token=number + 1, samples=samples)
        stored = write(store, batch, value=number + 1, side=side)
        arrays = read(stored.path, batch)
        assert stored.path.stat().st_size == stored.nbytes
        assert arrays["images"].shape == (samples, side, side, 3)
        assert all((array == number + 1).all() for array in arrays.values())
        release(stored.path)
    assert len(files(store.root)) == 1


def test_a_recycled_file_takes_no_more_space_than_its_batch(store: BatchStore) -> None:
    large = write(store, batch_id(), side=200)
    release(large.path)
    small = write(store, batch_id(token=2), side=8)
    assert small.path.stat().st_blocks * 512 <= small.nbytes + PAGE_BYTES


def test_two_writers_never_share_a_file(store: BatchStore) -> None:
    for token in range(1, 4):
        release(write(store, batch_id(token=token)).path)
    writers, each = 4, 6
    together = threading.Barrier(writers)
    problems: list[str] = []

    def work(number: int) -> None:
        for step in range(each):
            token = 100 + number * each + step
            batch = batch_id(index=token, token=token)

            def fill(arrays: Arrays, value: int = token) -> int:
                together.wait(timeout=20)  # all of them hold a file now
                return filler(value % 251)(arrays)

            stored = store.write(batch, batch_tensors(4, (32, 32, 3), "uint8"), fill)
            arrays = read(stored.path, batch)
            if not all((array == token % 251).all() for array in arrays.values()):
                problems.append(f"batch {token} holds something else")
            if step % 2:
                release(stored.path)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len([name for name in files(store.root) if "free" not in name]) == writers * each // 2


def test_a_holder_of_the_same_lease_that_comes_late_never_writes_into_what_was_published(
    store: BatchStore,
) -> None:
    # A message that is delivered twice gives two workers the same lease.
    seen: list[Array] = []

    def slow(arrays: Arrays) -> int:
        published = write(store, batch_id(), value=1)
        arrays["images"][...] = 200
        seen.append(read(published.path, batch_id())["images"])
        return filler(1)(arrays)

    late = store.write(batch_id(), batch_tensors(4, (32, 32, 3), "uint8"), slow)
    assert (seen[0] == 1).all()
    assert (read(late.path, batch_id())["images"] == 1).all()
    assert len(files(store.root)) == 1


def test_a_reader_keeps_its_batch_until_it_is_recycled(store: BatchStore) -> None:
    stored = write(store, batch_id(), value=6)
    images = read(stored.path, batch_id())["images"]
    store.remove_run(RUN)
    assert (images == 6).all()


@pytest.mark.parametrize(
    "other",
    [
        batch_id(index=1),
        batch_id(token=2),
        replace(batch_id(), epoch=1),
        replace(batch_id(), run=uuid.UUID(int=8)),
        replace(batch_id(), pipeline="00" * 32),
        replace(batch_id(), samples=3),
    ],
)
def test_another_batch_in_its_place_is_found(store: BatchStore, other: BatchId) -> None:
    stored = write(store, batch_id())
    with pytest.raises(DamagedBatch, match="holds another batch"):
        read(stored.path, other)


def test_two_files_that_changed_places_are_found(store: BatchStore) -> None:
    first, second = write(store, batch_id()), write(store, batch_id(index=1, token=2))
    aside = store.root / "aside"
    first.path.rename(aside)
    second.path.rename(first.path)
    aside.rename(second.path)
    with pytest.raises(DamagedBatch, match="holds another batch"):
        read(first.path, batch_id())


def test_who_made_a_batch_does_not_matter(store: BatchStore) -> None:
    stored = write(store, batch_id())
    assert read(stored.path, replace(batch_id(), device="other", engine="other"))


def test_a_damaged_file_is_named(store: BatchStore) -> None:
    stored = write(store, batch_id())
    with stored.path.open("r+b") as file:
        file.seek(PAGE_BYTES + 100)
        file.write(b"\xff")
    with pytest.raises(DamagedBatch, match=rf"{stored.path}: the payload's checksum"):
        read(stored.path, batch_id())


@pytest.mark.parametrize(("length", "words"), [(0, "is empty"), (100, "less than a header")])
def test_a_file_that_was_cut_short_is_named(store: BatchStore, length: int, words: str) -> None:
    stored = write(store, batch_id())
    os.truncate(stored.path, length)
    with pytest.raises(DamagedBatch, match=f"{stored.path}.*{words}"):
        read(stored.path, batch_id())


def test_a_file_that_is_gone_is_named(store: BatchStore) -> None:
    with pytest.raises(DamagedBatch, match="x is gone"):
        read(store.root / "x", batch_id())


def test_releasing_twice_or_after_the_run_is_forgotten_is_harmless(store: BatchStore) -> None:
    stored = write(store, batch_id())
    release(stored.path)
    release(stored.path)
    store.remove_run(RUN)
    release(stored.path)
    assert files(store.root) == []


def test_forgetting_a_run_leaves_the_others(store: BatchStore) -> None:
    other = replace(batch_id(), run=uuid.UUID(int=8))
    write(store, batch_id())
    kept = write(store, other)
    store.remove_run(RUN)
    store.remove_run(RUN)
    assert files(store.root) == [str(kept.path.relative_to(store.root))]


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place with room for 64 KiB: a real one where we may mount it."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)]
    mounted = os.geteuid() == 0 and not subprocess.run(mount, capture_output=True).returncode
    if not mounted:
        allocate = os.posix_fallocate

        def refuse(fd: int, offset: int, length: int) -> None:
            if length > 64 * 1024:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            allocate(fd, offset, length)

        monkeypatch.setattr(os, "posix_fallocate", refuse)
    yield place
    if mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(full_disk: Path) -> None:
    store = BatchStore(full_disk)
    with pytest.raises(Unavailable) as caught:
        write(store, batch_id(samples=64))
    message = str(caught.value)
    assert message.startswith("no room for a batch of 208896 bytes at ")
    assert "DDLP_CPU_STORE or DDLP_CSD_STORE" in message
    assert files(full_disk) == []
    assert (read(write(store, batch_id(), side=8).path, batch_id())["images"] == 1).all()


def test_a_recycled_file_that_cannot_grow_on_a_full_disk_leaves_nothing(full_disk: Path) -> None:
    store = BatchStore(full_disk)
    release(write(store, batch_id(), side=8).path)
    with pytest.raises(Unavailable, match="no room"):
        write(store, batch_id(token=2, samples=64))
    assert files(full_disk) == []
    np.testing.assert_array_equal(
        read(write(store, batch_id(token=3), side=8).path, batch_id(token=3))["labels"], 1
    )


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_batch_may_hold_fewer_samples_than_were_planned(store: BatchStore, kept: int) -> None:
    release(write(store, batch_id(), side=64).path)

    def fill(arrays: Arrays) -> int:
        for array in arrays.values():
            array[:kept] = np.arange(5, 5 + kept).reshape(-1, *[1] * (array.ndim - 1))
            array[kept:] = 99
        return kept

    planned = batch_tensors(4, (64, 64, 3), "uint8")
    stored = store.write(batch_id(token=2), planned, fill)
    assert stored.nbytes == stored.path.stat().st_size
    arrays = read(stored.path, batch_id(token=2, samples=kept))
    for array in arrays.values():
        assert len(array) == kept
        assert (array.reshape(kept, -1) == np.arange(5, 5 + kept)[:, None]).all()
    with pytest.raises(DamagedBatch, match="holds another batch"):
        read(stored.path, batch_id(token=2))


def test_only_what_was_committed_is_read(store: BatchStore) -> None:
    """Two holders of one lease publish under one name; their results may differ."""
    first = write(store, batch_id(), value=1)
    second = write(store, batch_id(), value=2)
    assert first.path == second.path
    with pytest.raises(MissingBatch, match="overwritten by another attempt"):
        read_batch(first.path, batch_id(), first.checksum)
    assert (read_batch(second.path, batch_id(), second.checksum)["images"] == 2).all()
