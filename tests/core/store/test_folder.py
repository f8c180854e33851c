"""A store in a folder: a batch is there whole or not at all, and consumed files are used again."""

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddlp.core.batchfile import PAGE_BYTES, Array, BatchId, batch_tensors, parse_head
from ddlp.core.codecs import Codec
from ddlp.core.errors import DamagedBatch, MissingBatch, Refused
from ddlp.core.store import (
    RUN_PREFIX,
    FolderStore,
    StoreAddress,
    batch_name,
    open_store,
    path_of,
    read_batch,
    release,
    run_folder,
)
from tests.core.store.making import (
    OTHER_RUN,
    RUN,
    Arrays,
    Fill,
    batch_id,
    files,
    filler,
    folder_in_memory,
    pictures,
    write,
)


def put(
    store: FolderStore, batch: BatchId, value: int = 1, side: int = 32, fill: Fill | None = None
) -> Path:
    return path_of(write(store, batch, value, side, fill).location)


def read(path: Path, expected: BatchId) -> Arrays:
    """Read a batch as one that was committed as it lies there."""
    there = path.exists() and path.stat().st_size >= PAGE_BYTES
    checksum = parse_head(memoryview(path.read_bytes())).checksum if there else 0
    return read_batch(path, expected, checksum)


@pytest.fixture(params=["memory", "drive", "compressed"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FolderStore]:
    """In memory files are mapped; to a drive they are written past the page cache."""
    codec = Codec.ZLIB if request.param == "compressed" else Codec.OFF
    if request.param == "memory":
        with folder_in_memory() as folder:
            yield FolderStore(folder / "store", codec=codec)
    else:
        yield FolderStore(tmp_path / "store", codec=codec)


def test_an_address_opens_it(tmp_path: Path) -> None:
    store = open_store(StoreAddress.parse(f"file://{tmp_path}"))
    assert isinstance(store, FolderStore)
    assert store.root == tmp_path


def test_what_was_written_is_read(store: FolderStore) -> None:
    arrays = read(put(store, batch_id(), value=9), batch_id())
    assert arrays["images"].shape == (4, 32, 32, 3)
    assert all((array == 9).all() for array in arrays.values())


def test_a_finished_batch_lies_where_everyone_can_work_out(store: FolderStore) -> None:
    stored = write(store, batch_id(index=12, token=345))
    name = batch_name(RUN, 0, 12, 345)
    path = path_of(stored.location)
    assert path == store.root / name
    assert stored.location == f"{StoreAddress.given(store.root).url}/{name}"
    assert stored.nbytes == path.stat().st_size
    assert stored.checksum == parse_head(memoryview(path.read_bytes())).checksum
    assert files(store.root) == [f"{RUN_PREFIX}{RUN}/00000-00000012-345"]


def test_a_batch_means_the_same_wherever_it_was_made(tmp_path: Path) -> None:
    with folder_in_memory() as folder:
        stores = [
            FolderStore(folder),
            FolderStore(tmp_path / "drive"),
            FolderStore(tmp_path / "packed", codec=Codec.ZLIB),
            FolderStore(folder / "packed", codec=Codec.ZLIB),
        ]
        made = [write(store, batch_id(), fill=pictures(1)) for store in stores]
    assert len({stored.checksum for stored in made}) == 1
    assert made[2].nbytes == made[3].nbytes < made[0].nbytes == made[1].nbytes


def test_what_is_read_cannot_be_written_to(store: FolderStore) -> None:
    arrays = read(put(store, batch_id()), batch_id())
    with pytest.raises(ValueError, match="read-only"):
        arrays["images"][0] = 0


def test_nothing_is_visible_before_it_is_complete(store: FolderStore) -> None:
    final = store.root / batch_name(RUN, 0, 0, 1)
    seen: list[bool] = []

    def fill(arrays: Arrays) -> int:
        seen.append(final.exists())
        return filler(3)(arrays)

    put(store, batch_id(), fill=fill)
    assert seen == [False]
    assert final.exists()


@pytest.mark.parametrize("error", [ValueError, MemoryError, KeyboardInterrupt, SystemExit])
def test_a_batch_that_fails_half_way_leaves_nothing(
    store: FolderStore, error: type[BaseException]
) -> None:
    def fill(arrays: Arrays) -> int:
        arrays["images"][:2] = 1
        raise error

    with pytest.raises(error):
        put(store, batch_id(), fill=fill)
    release(put(store, batch_id()))
    with pytest.raises(error):  # in a recycled file too
        put(store, batch_id(token=2), fill=fill)
    assert files(store.root) == []


def test_a_file_that_a_sample_lacks_is_not_taken_for_a_lost_lease(store: FolderStore) -> None:
    def fill(arrays: Arrays) -> int:
        raise FileNotFoundError("a sample")

    with pytest.raises(FileNotFoundError, match="a sample"):
        put(store, batch_id(), fill=fill)


@pytest.mark.parametrize("by", ["remove_run", "discard"])
def test_who_made_what_was_forgotten_meanwhile_is_refused(store: FolderStore, by: str) -> None:
    def fill(arrays: Arrays) -> int:
        if by == "remove_run":
            store.remove_run(RUN)
        else:
            store.discard(RUN, 0, 0, 1)
        return filler(1)(arrays)

    with pytest.raises(Refused, match="batch 0 was made by someone else"):
        put(store, batch_id(), fill=fill)
    assert files(store.root) == []


def test_a_writer_that_is_killed_leaves_nothing_that_could_be_read(store: FolderStore) -> None:
    program = f"""
import os, signal, uuid
from pathlib import Path
from ddlp.core.batchfile import BatchId, batch_tensors
from ddlp.core.store import FolderStore

def fill(arrays):
    arrays["images"][:] = 1
    os.kill(os.getpid(), signal.SIGKILL)

batch = BatchId(uuid.UUID(int=7), 0, 0, 1, 4, "cd" * 32, "pillow-1", "host")
FolderStore(Path({str(store.root)!r})).write(batch, batch_tensors(4, (8, 8, 3), "uint8"), fill)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    (left,) = files(store.root)
    assert left.startswith(f"{RUN_PREFIX}{RUN}/making/1-")
    path = put(store, batch_id(token=2), value=5)
    assert (read(path, batch_id(token=2))["images"] == 5).all()
    store.discard(RUN, 0, 0, 1)
    assert files(store.root) == [str(path.relative_to(store.root))]


def test_a_consumed_file_is_used_again(store: FolderStore) -> None:
    path = put(store, batch_id())
    inode = path.stat().st_ino
    release(path)
    assert not path.exists()
    assert put(store, batch_id(index=1, token=2)).stat().st_ino == inode
    assert files(store.root) == [f"{RUN_PREFIX}{RUN}/00000-00000001-2"]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 60)), min_size=2, max_size=6))
def test_a_larger_or_smaller_batch_in_a_recycled_file_is_right(
    store: FolderStore, sizes: list[tuple[int, int]]
) -> None:
    for number, (samples, side) in enumerate(sizes):
        batch = batch_id(index=number, token=number + 1, samples=samples)
        stored = write(store, batch, value=number + 1, side=side)
        path = path_of(stored.location)
        arrays = read(path, batch)
        assert path.stat().st_size == stored.nbytes
        assert arrays["images"].shape == (samples, side, side, 3)
        assert all((array == number + 1).all() for array in arrays.values())
        release(path)
        if number % 2:
            store.relax()
    assert len(files(store.root)) == 1


def test_a_recycled_file_takes_no_more_space_than_its_batch(store: FolderStore) -> None:
    release(put(store, batch_id(), side=200))
    small = write(store, batch_id(token=2), side=8)
    assert path_of(small.location).stat().st_blocks * 512 <= small.nbytes + PAGE_BYTES


def test_two_writers_never_share_a_file_or_memory(store: FolderStore) -> None:
    for token in range(1, 4):
        release(put(store, batch_id(token=token)))
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

            path = put(store, batch, fill=fill)
            if not all((a == token % 251).all() for a in read(path, batch).values()):
                problems.append(f"batch {token} holds something else")
            if step % 2:
                release(path)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len([name for name in files(store.root) if "free" not in name]) == writers * each // 2


def test_a_holder_of_the_same_lease_that_comes_late_never_writes_into_what_was_published(
    store: FolderStore,
) -> None:
    # A message that is delivered twice gives two workers the same lease.
    seen: list[Array] = []

    def slow(arrays: Arrays) -> int:
        published = put(store, batch_id(), value=1)
        arrays["images"][...] = 200
        seen.append(read(published, batch_id())["images"])
        return filler(1)(arrays)

    late = put(store, batch_id(), fill=slow)
    assert (seen[0] == 1).all()
    assert (read(late, batch_id())["images"] == 1).all()
    assert len(files(store.root)) == 1


def test_a_reader_keeps_its_batch_until_it_is_recycled(store: FolderStore) -> None:
    images = read(put(store, batch_id(), value=6), batch_id())["images"]
    store.remove_run(RUN)
    assert (images == 6).all()


def test_who_made_a_batch_does_not_matter(store: FolderStore) -> None:
    path = put(store, batch_id())
    assert read(path, replace(batch_id(), device="other", engine="other"))


@pytest.mark.parametrize(("length", "words"), [(0, "is empty"), (100, "less than a header")])
def test_a_file_that_was_cut_short_is_named(store: FolderStore, length: int, words: str) -> None:
    path = put(store, batch_id())
    os.truncate(path, length)
    with pytest.raises(DamagedBatch, match=f"{path}.*{words}"):
        read(path, batch_id())


def test_a_file_that_is_gone_is_named(store: FolderStore) -> None:
    with pytest.raises(MissingBatch, match="x is gone"):
        read(store.root / "x", batch_id())


def test_releasing_twice_or_after_the_run_is_forgotten_is_harmless(store: FolderStore) -> None:
    path = put(store, batch_id())
    release(path)
    release(path)
    store.remove_run(RUN)
    release(path)
    assert files(store.root) == []


def test_forgetting_a_run_leaves_the_others(store: FolderStore) -> None:
    put(store, batch_id())
    kept = put(store, batch_id(run=OTHER_RUN))
    assert set(store.runs()) == {RUN, OTHER_RUN}
    store.remove_run(RUN)
    store.remove_run(RUN)
    assert files(store.root) == [str(kept.relative_to(store.root))]
    assert set(store.runs()) == {OTHER_RUN}


def test_it_says_for_how_long_nothing_changed(store: FolderStore) -> None:
    path = put(store, batch_id())
    assert 0 <= store.runs()[RUN] < 60
    then = time.time() - 1000
    folder = store.root / run_folder(RUN)
    for place in (folder, *folder.rglob("*")):
        os.utime(place, (then, then))
    assert store.runs()[RUN] >= 900
    release(path)
    assert store.runs()[RUN] < 60


def test_only_folders_of_runs_are_runs(store: FolderStore) -> None:
    for name in ("ddlp-run-", "ddlp-run-x", f"ddlp-run-{uuid.UUID(int=3).hex}", "other"):
        (store.root / name).mkdir(parents=True)
    assert store.runs() == {}


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_batch_may_hold_fewer_samples_than_were_planned(store: FolderStore, kept: int) -> None:
    release(put(store, batch_id(), side=64))

    def fill(arrays: Arrays) -> int:
        for array in arrays.values():
            array[:kept] = np.arange(5, 5 + kept).reshape(-1, *[1] * (array.ndim - 1))
            array[kept:] = 99
        return kept

    stored = store.write(batch_id(token=2), batch_tensors(4, (64, 64, 3), "uint8"), fill)
    path = path_of(stored.location)
    assert stored.nbytes == path.stat().st_size
    for array in read(path, batch_id(token=2, samples=kept)).values():
        assert len(array) == kept
        assert (array.reshape(kept, -1) == np.arange(5, 5 + kept)[:, None]).all()
    with pytest.raises(DamagedBatch, match="holds another batch"):
        read(path, batch_id(token=2))


def test_only_what_was_committed_is_read(store: FolderStore) -> None:
    """Two holders of one lease publish under one name; their results may differ."""
    first = write(store, batch_id(), value=1)
    second = write(store, batch_id(), value=2)
    assert first.location == second.location
    path = path_of(first.location)
    with pytest.raises(MissingBatch, match="overwritten by another attempt"):
        read_batch(path, batch_id(), first.checksum)
    assert (read_batch(path, batch_id(), second.checksum)["images"] == 2).all()


def test_a_file_that_is_cut_short_while_it_is_made_does_not_end_its_worker() -> None:
    with folder_in_memory() as folder:
        store = FolderStore(folder)

        def cut(arrays: Arrays) -> int:
            (making,) = folder.glob("ddlp-run-*/making/*")
            os.truncate(making, 0)
            return filler(3)(arrays)

        with pytest.raises(DamagedBatch, match="was cut short by another process"):
            write(store, batch_id(), fill=cut)
        assert not files(folder)
        path = put(store, batch_id(), value=4)
        assert (read(path, batch_id())["images"] == 4).all()


def test_nobody_else_may_write_to_its_files(store: FolderStore) -> None:
    before = os.umask(0)
    try:
        path = put(store, batch_id())
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o666)
        release(path)
        assert put(store, batch_id(index=1, token=2)).stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize(
    ("folder", "file"),
    [(0o700, 0o600), (0o750, 0o640), (0o2750, 0o640), (0o2775, 0o640), (0o710, 0o600)],
)
def test_a_group_that_may_look_into_its_folder_may_read_its_files(
    store: FolderStore, folder: int, file: int, umask: int
) -> None:
    before = os.umask(umask)
    try:
        store.root.mkdir(exist_ok=True)
        store.root.chmod(0o700)
        release(put(store, batch_id()))  # closed yet, and used again
        store.root.chmod(folder)
        for index in (1, 2):
            path = put(store, batch_id(index=index, token=2))
            assert path.stat().st_mode & 0o777 == file
            shared = path.parent.stat().st_mode & 0o050
            assert shared == 0o050 or file == 0o600
            assert not path.parent.stat().st_mode & 0o022
    finally:
        os.umask(before)
