"""The batch store: a folder where finished batches of runs lie, whole or absent.

    ROOT/ddlp-run-RUN/making/TOKEN-…     being written
    ROOT/ddlp-run-RUN/EPOCH-INDEX-TOKEN  finished: renamed here in one step
    ROOT/ddlp-run-RUN/free/…             consumed; its pages are used again by the next batch

A file is taken from `free` by renaming it, so that it never has two writers, and a holder that was
given up for dead writes to a file that nobody else will ever open.
"""

import errno
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ddlp.core.batchfile import (
    Array,
    BatchId,
    TensorSpec,
    layout,
    payload_checksum,
    seal,
    tensor_views,
    unseal,
)
from ddlp.core.errors import DamagedBatch, MissingBatch, NoRoom, Refused
from ddlp.core.maps import Maps

RUN_PREFIX = "ddlp-run-"


@dataclass(frozen=True)
class StoredBatch:
    """A batch that was published: where it lies and what it should contain."""

    path: Path
    nbytes: int
    checksum: int


class BatchStore:
    """Writes and sweeps the batches of one device."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.maps = Maps(writable=True)

    def write(
        self, batch: BatchId, tensors: list[TensorSpec], fill: Callable[[dict[str, Array]], int]
    ) -> StoredBatch:
        """Make one batch: `fill` writes into its memory, then it appears under its final name.

        `fill` says how many samples it wrote; where it left some out, the batch is shorter.
        """
        folder = self.root / f"{RUN_PREFIX}{batch.run}"
        making = folder / "making" / f"{batch.token}-{uuid.uuid4().hex}"
        _, nbytes = layout(tensors)
        try:
            memory = self._open(folder, making, nbytes)
            arrays = tensor_views(memory, tensors)
            samples = fill(arrays)
            if samples < batch.samples:
                batch = replace(batch, samples=samples)
                tensors = _shorten(memory, tensors, arrays, samples)
                _, nbytes = layout(tensors)
                os.truncate(making, nbytes)
            checksum = seal(memory[:nbytes], batch, tensors)
        except BaseException:
            making.unlink(missing_ok=True)
            raise
        path = batch_path(self.root, batch.run, batch.epoch, batch.index, batch.token)
        try:
            making.rename(path)
        except FileNotFoundError as error:
            raise Refused(f"batch {batch.index} was made by someone else meanwhile") from error
        return StoredBatch(path, nbytes, checksum)

    def _open(self, folder: Path, making: Path, nbytes: int) -> memoryview:
        """Memory of a file to write: recycled where one lies free, else allocated."""
        making.parent.mkdir(parents=True, exist_ok=True)
        (folder / "free").mkdir(exist_ok=True)
        if not _take_free(folder / "free", making, self.maps):
            making.touch()
        with making.open("r+b") as file:
            _allocate(file.fileno(), nbytes, making)
            return self.maps.map(file, nbytes)

    def remove_run(self, run: uuid.UUID) -> None:
        """Forget all files of a run."""
        shutil.rmtree(self.root / f"{RUN_PREFIX}{run}", ignore_errors=True)

    def discard(self, run: uuid.UUID, epoch: int, index: int, token: int) -> None:
        """Forget what an attempt left that counts no more."""
        path = batch_path(self.root, run, epoch, index, token)
        path.unlink(missing_ok=True)
        for making in (path.parent / "making").glob(f"{token}-*"):
            making.unlink(missing_ok=True)


def _shorten(
    memory: memoryview, tensors: list[TensorSpec], arrays: dict[str, Array], samples: int
) -> list[TensorSpec]:
    """Move the tensors of a batch together that holds fewer samples than were planned."""
    shorter = [replace(tensor, shape=(samples, *tensor.shape[1:])) for tensor in tensors]
    moved = tensor_views(memory, shorter)
    for tensor in tensors[1:]:  # the first one begins where it did
        moved[tensor.name][:] = arrays[tensor.name][:samples].copy()
    return shorter


def store_limit(batch_bytes: int, quota_bytes: int, place: Path) -> int:
    """How many batches a store may hold: by its quota, and by half of what is free there now."""
    there = next((path for path in (place, *place.parents) if path.exists()), Path("/"))
    free_bytes = shutil.disk_usage(there).free // 2
    return max(2, min(quota_bytes, free_bytes) // batch_bytes)


def batch_path(root: Path, run: uuid.UUID, epoch: int, index: int, token: int) -> Path:
    """Where a finished batch lies; nobody has to say so, and nobody can say otherwise."""
    return root / f"{RUN_PREFIX}{run}" / f"{epoch:05d}-{index:08d}-{token}"


def _take_free(free: Path, making: Path, maps: Maps) -> bool:
    """Take a file that is used no more: one that is still mapped here, if there is one."""
    with os.scandir(free) as entries:
        for entry in sorted(entries, key=lambda entry: entry.inode() not in maps):
            try:
                os.rename(entry.path, making)
            except FileNotFoundError:
                continue
            return True
    return False


def _allocate(fd: int, nbytes: int, path: Path) -> None:
    """Reserve the space now: a map over a full disk would kill the process at the first write."""
    try:
        if os.fstat(fd).st_size > nbytes:
            os.ftruncate(fd, nbytes)
        os.posix_fallocate(fd, 0, nbytes)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise NoRoom(
            f"no room for a batch of {nbytes} bytes at {path.parent}; free some space, or choose "
            "another place with DDLP_CPU_STORE or DDLP_CSD_STORE"
        ) from error


def read_batch(
    path: Path, expected: BatchId, checksum: int, maps: Maps | None = None
) -> dict[str, Array]:
    """Map a finished batch, check it from end to end, and that it is the one committed.

    Two holders of one lease publish under one name. Should what they made differ, since a file
    could be read by one and not by the other, only what stands in the ledger is taken.
    """
    try:
        with path.open("rb") as file:
            nbytes = os.fstat(file.fileno()).st_size
            if not nbytes:
                raise DamagedBatch(f"{path} is empty")
            memory = (maps or Maps(writable=False)).map(file, nbytes)
    except FileNotFoundError as error:
        raise MissingBatch(f"{path} is gone") from error
    try:
        batch, arrays = unseal(memory)
    except DamagedBatch as error:
        raise DamagedBatch(f"{path}: {error}") from error
    if batch_key(batch) != batch_key(expected):
        raise DamagedBatch(f"{path} holds another batch: {batch}")
    if payload_checksum(memory) != checksum:
        raise MissingBatch(f"{path} was overwritten by another attempt with another result")
    return arrays


def batch_key(batch: BatchId) -> tuple[object, ...]:
    """What makes two batches the same, whoever made them."""
    return batch.run, batch.epoch, batch.index, batch.token, batch.samples, batch.pipeline


def release(path: Path) -> None:
    """Give a consumed batch's pages back for the next one."""
    try:
        os.rename(path, path.parent / "free" / path.name)
    except FileNotFoundError:
        path.unlink(missing_ok=True)
