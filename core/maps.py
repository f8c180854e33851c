"""Mappings of files: kept where files are used again, and never a reason for a process to die.

To map a file anew costs more than to fill it: its pages are put into the process's table one by
one. A file that is recycled keeps its inode, so its mapping can be kept too. Each entry holds its
file open: an inode's number is not used again as long as somebody does.

Whoever may write to a mapped file may cut it short, and then its pages are gone: to touch one is a
signal that ends a process (SIGBUS). Where the module in C could be built, such pages read as zeros
instead, and the mapping says that it is not whole any more.
"""

import mmap
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import BinaryIO

from ddlp.core.errors import DamagedBatch, SystemFault

try:
    from ddlp.core import _lost_pages
except ImportError:  # there was no compiler
    _lost_pages = None  # type: ignore[assignment]

_POPULATE: int = getattr(mmap, "MAP_POPULATE", 0)
_MOST = 8
_MOST_BYTES = 512 << 20
"""What a writer keeps. These pages are the files' own, but they count as the process's too."""

CUT_SHORT = "was cut short by another process while it was in use, or its drive failed"
OUTLIVES_LOSS = _lost_pages is not None
"""Whether a process here outlives that a file is cut short which it has mapped."""


_REMEDY = "close loaders and datasets that are not used"


class Unguarded(SystemFault):
    """A file is not mapped, as the loss of its pages would end the process."""


class FileMap(mmap.mmap):
    """A mapping of a file; it says whether pages of it were lost."""

    _entry = -1

    def guard(self) -> bool:
        """Outlive the loss of pages from now on; says whether the module for that is there.

        Raises `Unguarded` where no more files can be watched: such a map must not be used.
        """
        if OUTLIVES_LOSS:
            _lost_pages.arm()  # others may have put a handler of theirs in its place
            if self._entry < 0:
                self._entry = _lost_pages.watch(self)
            if self._entry < 0:
                raise Unguarded("too many files are mapped in this process", "mmap", _REMEDY)
        return OUTLIVES_LOSS

    @property
    def lost(self) -> bool:
        """Whether pages were touched that the file does not have any more."""
        return self._entry >= 0 and _lost_pages.is_lost(self._entry)

    def is_whole(self, nbytes: int) -> bool:
        """Whether the file still has so many bytes, and nothing else was ever read here."""
        return not self.lost and self.size() >= nbytes

    def __del__(self) -> None:
        """Watch it no more, before its addresses are another's."""
        if self._entry >= 0:
            _lost_pages.forget(self._entry)


@dataclass(frozen=True)
class MappedFile:
    """A file's memory, and where the file lies."""

    memory: memoryview
    location: str

    @property
    def is_whole(self) -> bool:
        """Whether the file still has all that was mapped of it."""
        return _map_of(self.memory).is_whole(len(self.memory))

    @property
    def lost(self) -> bool:
        """Whether zeros were read where the file had ended."""
        return _map_of(self.memory).lost

    def check_whole(self) -> None:
        """Raise where the file was cut short after it was mapped."""
        if not self.is_whole:
            raise DamagedBatch(f"{self.location} {CUT_SHORT}")

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A copy of what lies in it has memory of its own."""
        return type(None), ()


def _map_of(memory: memoryview) -> FileMap:
    assert isinstance(memory.obj, FileMap)
    return memory.obj


class Maps:
    """The mappings of a process that were used last, of files that are still there."""

    def __init__(self, writable: bool, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self.writable = writable
        self._most, self._most_bytes = most, most_bytes
        self._protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], tuple[int, FileMap]] = OrderedDict()

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
        if known is not None and len(known[1]) >= nbytes and not known[1].lost:
            self._kept[key] = known
            known[1].guard()
            return memoryview(known[1])[:nbytes]
        if known is not None:
            os.close(known[0])
        found = FileMap(
            file.fileno(), nbytes, flags=mmap.MAP_SHARED | _POPULATE, prot=self._protection
        )
        found.guard()
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
