"""Reads a batch in place: the file's own memory, mapped, without a copy where it lies on tmpfs."""

import os
from functools import partial

from ddlp.core.maps import Maps
from ddlp.core.store import read_batch
from ddlp.core.types import ReadPath
from ddlp.loader.readers.base import Loaded, Wanted
from ddlp.loader.readers.files import find_file, give_back_file

_MOST = 256
_MOST_BYTES = 4 << 30
"""What stays mapped: a store's files are used again and again."""


class MappedReader:
    """Maps files; the arrays can be written to where the files can."""

    path = ReadPath.MMAP

    def __init__(self) -> None:
        self._writable = Maps(writable=True, most=_MOST, most_bytes=_MOST_BYTES)
        self._read_only = Maps(writable=False, most=_MOST, most_bytes=_MOST_BYTES)

    def read(self, wanted: Wanted) -> Loaded:
        """Map a batch and check it."""
        path = find_file(wanted)
        maps = self._writable if os.access(path, os.R_OK | os.W_OK) else self._read_only
        arrays = read_batch(path, wanted.batch, wanted.checksum, maps)
        return Loaded(arrays, wanted.nbytes, partial(give_back_file, path), borrowed=True)

    def close(self) -> None:
        """Let go of the mappings; the memory goes with the last array over it."""
        self._writable.clear()
        self._read_only.clear()
