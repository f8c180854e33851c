"""What tests of stores share: small batches, and where they lie."""

import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ddlp.core.batchfile import Array, BatchId, batch_tensors
from ddlp.core.filesystem import filesystem_at
from ddlp.core.store import BatchStore, StoredBatch

RUN = uuid.UUID(int=7)
OTHER_RUN = uuid.UUID(int=8)
Arrays = dict[str, Array]
Fill = Callable[[Arrays], int]


def batch_id(index: int = 0, token: int = 1, samples: int = 4, run: uuid.UUID = RUN) -> BatchId:
    return BatchId(run, 0, index, token, samples, "cd" * 32, "pillow-1", "host")


def filler(value: int) -> Fill:
    def fill(arrays: Arrays) -> int:
        for array in arrays.values():
            array[...] = value
        return len(arrays["images"])

    return fill


def pictures(seed: int) -> Fill:
    """Levels that can be compressed, though not to nothing."""

    def fill(arrays: Arrays) -> int:
        numbers = np.random.default_rng(seed)
        for array in arrays.values():
            array[...] = np.sort(numbers.integers(0, 200, array.size)).reshape(array.shape)
        return len(arrays["images"])

    return fill


def write(
    store: BatchStore, batch: BatchId, value: int = 1, side: int = 32, fill: Fill | None = None
) -> StoredBatch:
    tensors = batch_tensors(batch.samples, (side, side, 3), "uint8")
    return store.write(batch, tensors, fill or filler(value))


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A folder on a real tmpfs."""
    place = Path("/dev/shm")
    if not place.is_dir() or not filesystem_at(place).in_memory:
        pytest.skip("there is no tmpfs at /dev/shm")
    with tempfile.TemporaryDirectory(prefix="ddlp-test-", dir=place) as folder:
        yield Path(folder)
