"""Files that hold many samples, kept open while a batch is made of them.

Samples are read and not mapped: to map and unmap the pages of a record takes longer than to copy
those parts of it that a view shows, a disk that fails raises an error instead of ending the
process, and no page tables grow with what was touched of a dataset.
"""

import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable

from ddlp.core.dataset.files import CHANGED, descriptor_of_unchanged
from ddlp.core.image.backend import FilePart

_MOST = 256
"""Files open at a time: a quarter of what a process may usually have."""

Find = Callable[[int], tuple[bytes, int, int]]
"""The path of the file with a number, its size, and when it was changed, as they were indexed."""


class OpenFiles:
    """Files by number, each opened and found unchanged once until all are closed."""

    def __init__(self) -> None:
        self._open: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def part(self, find: Find, number: int, start: int, length: int) -> FilePart:
        """Part of a file, good until it is closed; a ValueError where the file is another one."""
        descriptor, size = self._opened(find, number)
        if start + length > size:
            raise ValueError(CHANGED)
        return FilePart(descriptor, start, length)

    def expect(self, find: Find, number: int, start: int, length: int) -> None:
        """Have the system begin to read; what is wrong with the file is told by `part`."""
        if not hasattr(os, "posix_fadvise"):
            return
        with contextlib.suppress(OSError, ValueError):
            descriptor, _ = self._opened(find, number)
            os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            os.close(self._open.popitem()[1][0])

    def _opened(self, find: Find, number: int) -> tuple[int, int]:
        known = self._open.get(number)
        if known is not None:
            return known
        path, size, time_ns = find(number)
        descriptor = descriptor_of_unchanged(path, size, time_ns)
        if len(self._open) >= _MOST:
            os.close(self._open.popitem(last=False)[1][0])
        self._open[number] = descriptor, size
        return descriptor, size

    def __del__(self) -> None:
        self.close()
