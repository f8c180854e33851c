"""Reads a batch from a drive past the page cache, into memory of ours that begins at a page."""

from functools import partial

import numpy as np
import xxhash

from ddlp.core.batchfile import PAGE_BYTES, aligned
from ddlp.core.direct import DirectFiles
from ddlp.core.errors import DamagedBatch
from ddlp.core.store.reading import check_batch, unreadable
from ddlp.core.types import ReadPath
from ddlp.loader.buffers import Buffers
from ddlp.loader.readers.base import Loaded, Wanted
from ddlp.loader.readers.files import find_file, give_back_file

_LEAST_BYTES = 1 << 20
"""Smaller buffers need not begin at a page."""


class _Payload:
    """The checksum of what follows the header, taken while the rest of the file is on its way."""

    def __init__(self) -> None:
        self.sum = xxhash.xxh3_64()
        self._header_left = PAGE_BYTES

    def add(self, part: memoryview) -> None:
        skipped = min(self._header_left, len(part))
        self._header_left -= skipped
        self.sum.update(part[skipped:])


class DirectReader:
    """Reads files with O_DIRECT, several slices at once."""

    path = ReadPath.DIRECT

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._files = DirectFiles()

    def read(self, wanted: Wanted) -> Loaded:
        """Read a batch and check it."""
        path = find_file(wanted)
        blocks = aligned(wanted.nbytes)
        buffer = self._buffers.take((max(blocks, _LEAST_BYTES),), np.dtype(np.uint8))
        memory = buffer.data[: wanted.nbytes]
        payload = _Payload()
        try:
            found = self._files.read(path, buffer.data[:blocks], payload.add)
        except OSError as error:
            raise unreadable(error, str(path)) from error
        if found != wanted.nbytes:
            raise DamagedBatch(f"{path} has {found} bytes, not {wanted.nbytes}")
        checked = wanted.batch, wanted.checksum, str(path)
        arrays = check_batch(memory, *checked, payload_checksum=payload.sum.intdigest())
        return Loaded(arrays, wanted.nbytes, partial(give_back_file, path))

    def close(self) -> None:
        """End the threads."""
        self._files.close()
