"""Reads a file on tmpfs, or in the page cache, into memory of ours: nobody else can change that."""

import os
from functools import partial

import numpy as np

from ddlp.core.batchfile import Array
from ddlp.core.errors import DamagedBatch
from ddlp.core.store.reading import check_batch, reading
from ddlp.core.types import ReadPath
from ddlp.loader.buffers import Buffers
from ddlp.loader.readers.base import Loaded, Wanted
from ddlp.loader.readers.files import find_file, give_back_file


class CopyReader:
    """Copies files to which others may write, and checks the copy."""

    path = ReadPath.COPY

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def read(self, wanted: Wanted) -> Loaded:
        """Copy a batch and check it."""
        path = find_file(wanted)
        memory: Array = self._buffers.take((wanted.nbytes,), np.dtype(np.uint8))
        with reading("open", path):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with reading("read", path):
                done = _read(descriptor, memory.data)
        finally:
            os.close(descriptor)
        if done != wanted.nbytes:
            raise DamagedBatch(f"{path} has {done} bytes, not {wanted.nbytes}")
        arrays = check_batch(memory.data, wanted.batch, wanted.checksum, str(path))
        return Loaded(arrays, wanted.nbytes, partial(give_back_file, path))

    def close(self) -> None:
        """Nothing is open."""


def _read(descriptor: int, memory: memoryview) -> int:
    """Fill memory from a file's beginning, as far as it goes."""
    done = 0
    while moved := os.preadv(descriptor, [memory[done:]], done):
        done += moved
    return done
