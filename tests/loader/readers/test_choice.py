"""Each batch is read by the best path there is; which one, and why, is said once and counted."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.batchfile import BatchId
from ddlp.core.errors import InvalidInput, MissingBatch, Unavailable
from ddlp.core.filesystem import filesystem_at
from ddlp.core.messages import FedBatch
from ddlp.core.store import FolderStore, StoredBatch, batch_name, path_of
from ddlp.core.store.served import StoreServer, access_token, new_key
from ddlp.core.types import Prong, ReadPath
from ddlp.loader.buffers import Buffers
from ddlp.loader.readers import choice
from ddlp.loader.readers.choice import Readers, ReadOptions
from ddlp.loader.readers.gds import NotByGds
from ddlp.loader.readers.gds_probe import Cause, Refusal
from tests.core.store.making import batch_id, folder_in_memory, write


@pytest.fixture
def memory() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


def fed(batch: BatchId, stored: StoredBatch, **fields: Any) -> FedBatch:
    usual = {
        "index": batch.index,
        "step": 0,
        "token": batch.token,
        "prong": Prong.CSD,
        "device": "csd0",
        "host": socket.gethostname(),
        "location": stored.location,
        "nbytes": stored.nbytes,
        "samples": batch.samples,
        "checksum": stored.checksum,
        "from_tail": True,
        "left_out": None,
    }
    return FedBatch(**{**usual, **fields})


def take(folder: Path, options: ReadOptions | None = None, **fields: Any) -> Readers:
    """Read a batch of a folder; returns what read it."""
    readers = Readers(options or ReadOptions(), Buffers())
    batch = batch_id()
    loaded = readers.read(fed(batch, write(FolderStore(folder), batch, 9), **fields), batch)
    assert (loaded.tensors["images"] == 9).all()
    return readers


def way(readers: Readers) -> tuple[str, str]:
    [read] = readers.counts.totals()
    return read.path.value, read.reason


def test_memory_of_this_host_is_mapped(memory: Path) -> None:
    assert way(take(memory)) == ("mmap", "tmpfs is memory of this host")


def test_a_drive_is_read_past_the_page_cache_where_there_is_no_gds(tmp_path: Path) -> None:
    path, reason = way(take(tmp_path))
    assert path == "direct"
    assert reason == "a drive, read past the page cache"


def test_a_filesystem_without_direct_reads_is_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "direct_read_refusal", lambda _: "oldfs takes no O_DIRECT")
    path, reason = way(take(tmp_path))
    assert path == "mmap"
    assert reason == "through the page cache: oldfs takes no O_DIRECT"
    with pytest.raises(Unavailable, match="reader='direct' cannot be had: oldfs"):
        take(tmp_path, ReadOptions(reader="direct"))


@pytest.mark.parametrize("reader", ["mmap", "direct"])
def test_a_path_that_is_asked_for_is_taken(tmp_path: Path, reader: Any) -> None:
    assert way(take(tmp_path, ReadOptions(reader=reader))) == (reader, "asked for")


@contextmanager
def another_user(folder: Path) -> Iterator[None]:
    """This process as somebody who may not enter a folder, whoever runs it."""
    if os.geteuid():
        folder.chmod(0)
        yield
        folder.chmod(0o700)
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_a_store_of_another_user_is_not_taken_for_gone(tmp_path: Path) -> None:
    readers, batch = Readers(ReadOptions(), Buffers()), batch_id()
    given = fed(batch, write(FolderStore(tmp_path / "store"), batch, 9))
    with another_user(tmp_path / "store"):
        with pytest.raises(Unavailable, match="a folder of another user"):
            readers.read(given, batch)
        assert not readers.is_gone(given)
    readers.read(given, batch)
    readers.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can be two users")
def test_a_file_that_may_not_be_read_is_named_as_another_users() -> None:
    readers, batch = Readers(ReadOptions(), Buffers()), batch_id()
    with folder_in_memory() as folder:
        given = fed(batch, write(FolderStore(folder), batch, 9))
        for place in (folder, path_of(given.location).parent):
            place.chmod(0o711)
        with another_user(folder):
            with pytest.raises(Unavailable, match=r"another user, .* with mode 2750"):
                readers.read(given, batch)
            assert not readers.is_gone(given)


def test_what_is_not_seen_here_is_fetched_from_its_host(tmp_path: Path) -> None:
    store, key, batch = FolderStore(tmp_path / "there"), new_key(), batch_id()
    stored = write(store, batch, 9)
    name = batch_name(batch.run, batch.epoch, batch.index, batch.token)
    server = StoreServer(tmp_path / "there", "http://127.0.0.1:0", key)
    server.start()
    try:
        given = fed(
            batch,
            stored,
            host="faraway",
            location=f"file:///not/here/{name}",
            served=f"{server.url}/{name}",
            access=access_token(key, name),
        )
        readers = Readers(ReadOptions(), Buffers())
        loaded = readers.read(given, batch)
        assert (loaded.tensors["images"] == 9).all()
        assert way(readers) == ("http", "faraway serves it, and this host sees no file")
        loaded.give_back()
        assert not (tmp_path / "there" / name).exists()
        readers.close()
    finally:
        server.stop()


def test_another_host_may_use_the_same_path_for_the_same_run(tmp_path: Path) -> None:
    """The run's folder is here, with batches of this host; the file is on the other one."""
    batch = batch_id()
    stored = write(FolderStore(tmp_path), batch)
    path_of(stored.location).unlink()
    served = {"host": "faraway", "served": "http://faraway:8100/x", "access": "token"}
    given = fed(batch, stored, **served)
    readers = Readers(ReadOptions(), Buffers())
    assert not readers.is_gone(given)
    assert readers._choose(given, batch)[0].path is ReadPath.HTTP


def test_what_nobody_serves_and_nobody_sees_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"csd0 on faraway wrote .* DDLP_SERVE_STORE"):
        take(tmp_path, host="faraway", location=f"file:///not/here/{'x' * 9}/y")


def test_what_is_gone_from_this_host_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingBatch):
        take(tmp_path, location="file:///not/here/run/batch")
    batch = batch_id()
    given = fed(batch, write(FolderStore(tmp_path), batch))
    readers = Readers(ReadOptions(), Buffers())
    assert not readers.is_gone(given)
    path_of(given.location).unlink()
    assert readers.is_gone(given)
    with pytest.raises(MissingBatch, match="is gone"):
        readers.read(given, batch)


def test_what_was_chosen_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ddlp.loader.readers.choice")
    readers = Readers(ReadOptions(), Buffers())
    for index in range(3):
        batch = batch_id(index, index + 1)
        readers.read(fed(batch, write(FolderStore(tmp_path), batch)), batch)
    assert [record.message for record in caplog.records] == [
        "batches of csd0 are read by direct (a drive, read past the page cache)"
    ]
    [read] = readers.counts.totals()
    assert (read.batches, read.bytes) == (3, 3 * given_bytes(tmp_path))


def given_bytes(folder: Path) -> int:
    return next(folder.rglob("0*")).stat().st_size


# GPUDirect Storage: what is refused here is refused by the real probe; a drive that it reaches
# cannot be had, and is stood in for where the choice is made.


@pytest.mark.parametrize("options", [{"require_gds": True}, {"reader": "gds"}])
def test_gds_that_is_required_and_not_there_fails_at_once_with_the_cause(options: Any) -> None:
    with pytest.raises(Unavailable, match="required and cannot be had: it is for CUDA devices"):
        Readers(ReadOptions(**options), Buffers())


class FakeGds:
    path = ReadPath.GDS

    def __init__(self, refusal: Refusal | None) -> None:
        self.refusal = refusal
        self.asked = 0

    def read(self, wanted: Any) -> Any:
        self.asked += 1
        if self.refusal is not None:
            raise NotByGds(self.refusal)
        return choice.MappedReader().read(wanted)

    def close(self) -> None:
        return


@pytest.fixture
def gds(monkeypatch: pytest.MonkeyPatch) -> FakeGds:
    """A machine on which GPUDirect Storage works."""
    fake = FakeGds(None)
    monkeypatch.setattr(choice, "device_refusal", lambda _: None)
    monkeypatch.setattr(choice, "file_refusal", lambda _: None)
    monkeypatch.setattr(choice, "GdsReader", lambda _: fake)
    return fake


def test_a_drive_is_read_by_gds_where_that_works(gds: FakeGds, tmp_path: Path) -> None:
    readers = take(tmp_path, ReadOptions(require_gds=True))
    assert way(readers) == ("gds", "from the drive into the accelerator")


def test_memory_of_the_host_is_no_drive_and_counts_only_for_drives(
    gds: FakeGds, memory: Path
) -> None:
    required = ReadOptions(require_gds=True)
    assert way(take(memory, required, prong=Prong.CPU))[0] == "mmap"
    with pytest.raises(Unavailable, match="would be read by mmap: tmpfs is memory of this host"):
        take(memory, required)


def test_a_batch_that_gds_cannot_take_is_read_otherwise_or_not_at_all(
    gds: FakeGds, tmp_path: Path
) -> None:
    gds.refusal = Refusal(Cause.COMPRESSED, "its images are compressed")
    assert way(take(tmp_path)) == ("direct", "no GDS: its images are compressed")
    with pytest.raises(Unavailable, match=r"required .* its images are compressed"):
        take(tmp_path, ReadOptions(require_gds=True))


def test_a_file_that_gds_does_not_reach_is_named_with_the_cause(
    gds: FakeGds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Refusal(Cause.TOO_SMALL, "16384 bytes are less than KvikIO reads directly")
    monkeypatch.setattr(choice, "file_refusal", lambda _: small)
    assert way(take(tmp_path)) == ("direct", f"no GDS: {small}")
    with pytest.raises(Unavailable, match=r"required .* 16384 bytes are less"):
        take(tmp_path, ReadOptions(require_gds=True))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"reader": "pigeon"}, "is not one of: auto, mmap, direct, gds"),
        ({"reader": "mmap", "require_gds": True}, "exclude each other"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        ReadOptions(**options)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_a_group_that_a_store_is_shared_with_reads_by_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readers, batch = Readers(ReadOptions(reader="mmap"), Buffers()), batch_id()
    before = os.umask(0o077)
    try:
        with folder_in_memory() as folder:
            os.chown(folder, 65533, 65534)
            folder.chmod(0o2750)
            given = fed(batch, write(FolderStore(folder), batch, 9))
            os.chown(path_of(given.location), 65533, -1)  # as of a worker that is not root
            found = filesystem_at(folder)  # after this, Linux shows it the mounts no more
            monkeypatch.setattr(choice, "filesystem_at", lambda _: found)
            os.setresgid(65534, 65534, 0)
            with another_user(folder):
                loaded = readers.read(given, batch)
            assert (loaded.tensors["images"] == 9).all()  # type: ignore[union-attr]
    finally:
        os.setresgid(0, 0, 0)
        os.umask(before)
    path, reason = way(readers)
    assert path == "copy"
    assert "its files are another user's (uid 65533)" in reason
