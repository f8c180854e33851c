"""Reads a batch from a drive past the page cache, into memory of ours that begins at a page."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import xxhash

from ddlp.core.batchfile import PAGE_BYTES, Array, aligned
from ddlp.core.direct import DirectFiles, Reading
from ddlp.core.errors import DamagedBatch, DdlpError
from ddlp.core.store.reading import check_batch, reading
from ddlp.core.types import ReadPath
from ddlp.loader.buffers import Buffers
from ddlp.loader.readers.base import Loaded, Wanted
from ddlp.loader.readers.files import find_file, give_back_file

_LEAST_BYTES = 1 << 20
"""Smaller buffers need not begin at a page."""
_MOST_BEGUN = 2
"""The one that is read, and the next."""


class _Payload:
    """The checksum of what follows the header, taken while the rest of the file is on its way."""

    def __init__(self) -> None:
        self.sum = xxhash.xxh3_64()
        self._header_left = PAGE_BYTES

    def add(self, part: memoryview) -> None:
        skipped = min(self._header_left, len(part))
        self._header_left -= skipped
        self.sum.update(part[skipped:])


@dataclass(frozen=True)
class _Begun:
    """A batch on its way."""

    path: Path
    buffer: Array
    reading: Reading


class DirectReader:
    """Reads files with O_DIRECT, several slices at once; the next one while one is looked at."""

    path = ReadPath.DIRECT

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._files = DirectFiles()
        self._begun: dict[str, _Begun] = {}

    def expect(self, wanted: Wanted) -> None:
        """Begin with a batch that is wanted soon; what is wrong with it is said when it is read."""
        if wanted.location in self._begun:
            return
        while len(self._begun) >= _MOST_BEGUN:  # others came in between: it may never be asked for
            self._begun.pop(next(iter(self._begun))).reading.abandon()
        with suppress(DdlpError):
            self._begun[wanted.location] = self._begin(wanted)

    def read(self, wanted: Wanted) -> Loaded:
        """Read a batch and check it."""
        begun = self._begun.pop(wanted.location, None) or self._begin(wanted)
        payload = _Payload()
        with reading("read", begun.path):
            found = begun.reading.finish(payload.add)
        if found != wanted.nbytes:
            raise DamagedBatch(f"{begun.path} has {found} bytes, not {wanted.nbytes}")
        arrays = check_batch(
            begun.buffer.data[: wanted.nbytes],
            wanted.batch,
            wanted.checksum,
            str(begun.path),
            payload_checksum=payload.sum.intdigest(),
        )
        return Loaded(arrays, wanted.nbytes, partial(give_back_file, begun.path))

    def close(self) -> None:
        """End the threads."""
        for begun in self._begun.values():
            begun.reading.abandon()
        self._begun = {}
        self._files.close()

    def _begin(self, wanted: Wanted) -> _Begun:
        path = find_file(wanted)
        blocks = aligned(wanted.nbytes)
        buffer = self._buffers.take((max(blocks, _LEAST_BYTES),), np.dtype(np.uint8))
        with reading("open", path):
            return _Begun(path, buffer, self._files.begin_read(path, buffer.data[:blocks]))
