"""Mappings of files that are used again and again.

To map a file anew costs more than to fill it: its pages are put into the process's table one by
one. A file that is recycled keeps its inode, so its mapping can be kept too. Each entry holds its
file open: an inode's number is not used again as long as somebody does.
"""

import mmap
import os
import threading
from collections import OrderedDict
from typing import BinaryIO

_POPULATE: int = getattr(mmap, "MAP_POPULATE", 0)
_MOST = 8
_MOST_BYTES = 512 << 20
"""What a writer keeps. These pages are the files' own, but they count as the process's too."""


class Maps:
    """The mappings of a process that were used last, of files that are still there."""

    def __init__(self, writable: bool, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self.writable = writable
        self._most, self._most_bytes = most, most_bytes
        self._protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], tuple[int, mmap.mmap]] = OrderedDict()

    def __contains__(self, inode: int) -> bool:
        with self._lock:
            return any(known == inode for _, known in self._kept)

    def map(self, file: BinaryIO, nbytes: int) -> memoryview:
        """The first bytes of an open file."""
        with self._lock:
            return self._map(file, nbytes)

    def _map(self, file: BinaryIO, nbytes: int) -> memoryview:
        status = os.fstat(file.fileno())
        key = status.st_dev, status.st_ino
        known = self._kept.pop(key, None)
        if known is not None and len(known[1]) >= nbytes:
            self._kept[key] = known
            return memoryview(known[1])[:nbytes]
        if known is not None:
            os.close(known[0])
        found = mmap.mmap(
            file.fileno(), nbytes, flags=mmap.MAP_SHARED | _POPULATE, prot=self._protection
        )
        self._kept[key] = os.dup(file.fileno()), found
        self._trim()
        return memoryview(found)

    def clear(self) -> None:
        """Let go of all of them; the memory goes with the last array over it."""
        with self._lock:
            while self._kept:
                self._drop(next(iter(self._kept)))

    def _trim(self) -> None:
        """Let go of files that are gone, and of what was not used for longest."""
        for key, (descriptor, _) in list(self._kept.items()):
            if not os.fstat(descriptor).st_nlink:
                self._drop(key)
        while len(self._kept) > 1 and (
            len(self._kept) > self._most
            or sum(len(m) for _, m in self._kept.values()) > self._most_bytes
        ):
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[int, int]) -> None:
        descriptor, _ = self._kept.pop(key)
        os.close(descriptor)

    def __del__(self) -> None:
        self.clear()
