"""Reads a batch in place: the file's own memory, mapped, without a copy where it lies on tmpfs.

Only files that nobody else may write to are: what others can change or cut short after it was
checked is copied first. A process of the same user can still cut a file short; the map then says
so (`core/maps.py`).
"""

import os
from functools import partial

from ddlp.core.errors import Unavailable
from ddlp.core.filesystem import other_writers
from ddlp.core.maps import OUTLIVES_LOSS, Maps, Unguarded
from ddlp.core.store.reading import check_mapped, map_batch
from ddlp.core.types import ReadPath
from ddlp.loader.readers.base import Loaded, Wanted
from ddlp.loader.readers.files import find_file, give_back_file

_MOST = 256
_MOST_BYTES = 4 << 30
"""What stays mapped: a store's files are used again and again."""


class NotByMap(Unavailable):
    """A batch's file must be copied: what is mapped of it could be taken away."""


class MappedReader:
    """Maps files; the arrays can be written to where the files can."""

    path = ReadPath.MMAP

    def __init__(self) -> None:
        self._writable = Maps(writable=True, most=_MOST, most_bytes=_MOST_BYTES)
        self._read_only = Maps(writable=False, most=_MOST, most_bytes=_MOST_BYTES)

    def read(self, wanted: Wanted) -> Loaded:
        """Map a batch and check it; raises `NotByMap` where it must be copied."""
        path = find_file(wanted)
        maps = self._writable if os.access(path, os.R_OK | os.W_OK) else self._read_only
        try:
            file = map_batch(path, maps, _check_private)
        except Unguarded as error:
            raise NotByMap(str(error)) from error
        arrays = check_mapped(file, wanted.batch, wanted.checksum)
        give_back = partial(give_back_file, path)
        return Loaded(arrays, wanted.nbytes, give_back, borrowed=True, file=file)

    def close(self) -> None:
        """Let go of the mappings; the memory goes with the last array over it."""
        self._writable.clear()
        self._read_only.clear()


def _check_private(status: os.stat_result) -> None:
    if not OUTLIVES_LOSS:
        raise NotByMap("the module that outlives files cut short was not built here")
    others = other_writers(status)
    if others is not None:
        raise NotByMap(others)
