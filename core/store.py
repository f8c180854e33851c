"""The batch store: a folder where finished batches of runs lie, whole or absent.

    ROOT/RUN/making/TOKEN-…     being written
    ROOT/RUN/EPOCH-INDEX-TOKEN  finished: renamed here in one step
    ROOT/RUN/free/…             consumed; its pages are used again by the next batch

A file is taken from `free` by renaming it, so that it never has two writers, and a holder that was
given up for dead writes to a file that nobody else will ever open.
"""

import errno
import mmap
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ddlp.core.batchfile import Array, BatchId, TensorSpec, layout, seal, tensor_views, unseal
from ddlp.core.errors import DamagedBatch, Unavailable


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

    def write(
        self, batch: BatchId, tensors: list[TensorSpec], fill: Callable[[dict[str, Array]], None]
    ) -> StoredBatch:
        """Make one batch: `fill` writes into its memory, then it appears under its final name."""
        folder = self.root / str(batch.run)
        making = folder / "making" / f"{batch.token}-{uuid.uuid4().hex}"
        _, nbytes = layout(tensors)
        try:
            with _Mapped(folder, making, nbytes) as memory:
                fill(tensor_views(memory, tensors))
                checksum = seal(memory, batch, tensors)
        except BaseException:
            making.unlink(missing_ok=True)
            raise
        path = batch_path(self.root, batch.run, batch.epoch, batch.index, batch.token)
        making.rename(path)
        return StoredBatch(path, nbytes, checksum)

    def remove_run(self, run: uuid.UUID) -> None:
        """Forget all files of a run."""
        shutil.rmtree(self.root / str(run), ignore_errors=True)


def batch_path(root: Path, run: uuid.UUID, epoch: int, index: int, token: int) -> Path:
    """Where a finished batch lies; nobody has to say so, and nobody can say otherwise."""
    return root / str(run) / f"{epoch:05d}-{index:08d}-{token}"


class _Mapped:
    """The memory of a file that is being written: recycled where one lies free, else allocated."""

    def __init__(self, folder: Path, making: Path, nbytes: int) -> None:
        making.parent.mkdir(parents=True, exist_ok=True)
        (folder / "free").mkdir(exist_ok=True)
        if not _take_free(folder / "free", making):
            making.touch()
        with making.open("r+b") as file:
            _allocate(file.fileno(), nbytes, making)
            self._map = mmap.mmap(file.fileno(), nbytes)
        self._view = memoryview(self._map)

    def __enter__(self) -> memoryview:
        return self._view

    def __exit__(self, *_: object) -> None:
        # Arrays over the memory may live a little longer; the map closes with the last of them.
        del self._view, self._map


def _take_free(free: Path, making: Path) -> bool:
    with os.scandir(free) as entries:
        for entry in entries:
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
        raise Unavailable(
            f"no room for a batch of {nbytes} bytes at {path.parent}; free some space, or choose "
            "another place with DDLP_CPU_STORE or DDLP_CSD_STORE"
        ) from error


def read_batch(path: Path, expected: BatchId) -> dict[str, Array]:
    """Map a finished batch, check it from end to end, and that it is the one expected."""
    try:
        with path.open("rb") as file:
            memory = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError as error:
        raise DamagedBatch(f"{path} is gone") from error
    except ValueError as error:
        raise DamagedBatch(f"{path} is empty") from error
    try:
        batch, arrays = unseal(memory)
    except DamagedBatch as error:
        raise DamagedBatch(f"{path}: {error}") from error
    if batch_key(batch) != batch_key(expected):
        raise DamagedBatch(f"{path} holds another batch: {batch}")
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
