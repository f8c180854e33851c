"""Reads and writes whole files past the page cache, into memory that begins at a page.

Several slices of a file are under way at once: one at a time leaves a drive idle between them.
"""

import errno
import mmap
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from ddlp.core.patience import Patience

_LARGE_BYTES = 4 << 20
_HUGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)
SLICE_BYTES = 4 << 20
DEPTH = 4
"""Slices under way at once."""
_BLOCK_BYTES = 4096
"""Direct transfers begin at a multiple of this; what ends elsewhere is the end of the file."""


def page_memory(nbytes: int) -> mmap.mmap:
    """Memory that begins at a page, as direct transfers need it.

    Large pages are asked for where it is large, and are only given to memory that is not shared:
    the kernel takes hold of each page for a transfer, which costs more than the transfer itself.
    """
    nbytes = max(1, -(-nbytes // mmap.PAGESIZE)) * mmap.PAGESIZE
    allocate = partial(mmap.mmap, -1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory = Patience().call("mmap", f"{nbytes} bytes of memory", allocate)
    if len(memory) >= _LARGE_BYTES and _HUGE_PAGES is not None:
        with suppress(OSError):  # a kernel without them
            memory.madvise(_HUGE_PAGES)
    return memory


class PageMemory:
    """Memory that is kept for the next transfer; two at the same time have one each."""

    def __init__(self) -> None:
        self._kept: mmap.mmap | None = None

    @contextmanager
    def taken(self, nbytes: int) -> Iterator[memoryview]:
        """So many bytes, with whatever is in them."""
        memory, self._kept = self._kept, None
        if memory is None or len(memory) < nbytes:
            memory = page_memory(nbytes)
        try:
            yield memoryview(memory)[:nbytes]
        finally:
            self._kept = memory

    def relax(self) -> None:
        """Let go of what is kept."""
        self._kept = None


class DirectFiles:
    """Transfers files between a drive and memory; of one thread at a time."""

    def __init__(self, depth: int = DEPTH) -> None:
        self._pool = ThreadPoolExecutor(depth, thread_name_prefix="ddlp-direct")
        self._patience = Patience()

    def read(
        self, path: Path, memory: memoryview, seen: Callable[[memoryview], None] = lambda _: None
    ) -> int:
        """Fill memory from a file's beginning; returns the bytes that were there."""
        return self.begin_read(path, memory).finish(seen)

    def begin_read(self, path: Path, memory: memoryview) -> "Reading":
        """Have a file read into memory, which nobody may touch before it is finished."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        reading = Reading(descriptor, memory)
        try:
            self._begin(reading.slices, _read, descriptor, memory, 0)
        except BaseException:
            reading.abandon()
            raise
        return reading

    @contextmanager
    def writing(self, descriptor: int) -> Iterator[Callable[[memoryview, int], None]]:
        """Write parts of memory to places of an open file; all is there at the end."""
        slices: list[Future[int]] = []

        def begin(memory: memoryview, at: int) -> None:
            self._begin(slices, self._write, descriptor, memory, at)

        try:
            yield begin
        finally:
            wait(slices)
        for moved in slices:
            moved.result()

    def write(self, descriptor: int, memory: memoryview) -> None:
        """Write memory to an open file's beginning."""
        with self.writing(descriptor) as begin:
            begin(memory, 0)

    def _write(self, descriptor: int, part: memoryview, at: int) -> int:
        """Write a slice to its end, also if the drive refuses for a moment."""
        place = _name_of(descriptor)
        return self._patience.call("pwrite", place, partial(_write, descriptor, part, at))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False)

    def _begin(
        self,
        slices: list[Future[int]],
        move: Callable[[int, memoryview, int], int],
        descriptor: int,
        memory: memoryview,
        at: int,
    ) -> None:
        """Have slices moved; each is in the list as soon as it is under way."""
        for start in range(0, len(memory), SLICE_BYTES):
            part = memory[start : start + SLICE_BYTES]
            slices.append(self._pool.submit(move, descriptor, part, at + start))


class Reading:
    """A file on its way into memory."""

    def __init__(self, descriptor: int, memory: memoryview) -> None:
        self._descriptor = descriptor
        self._memory = memory
        self.slices: list[Future[int]] = []

    def finish(self, seen: Callable[[memoryview], None] = lambda _: None) -> int:
        """Wait until it is there; returns the bytes that were.

        `seen` is shown slice after slice, in order, while others are still on their way.
        """
        try:
            found = 0
            for place, moved in enumerate(self.slices):
                found += moved.result()
                seen(self._memory[place * SLICE_BYTES : found])
            return found
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Wait until nothing moves any more: descriptor and memory may be another's after this."""
        wait(self.slices)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _name_of(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:  # no /proc
        return f"descriptor {descriptor}"


def _read(descriptor: int, part: memoryview, at: int) -> int:
    """Fill a slice, up to the end of the file; the kernel may give it in pieces."""
    done = 0
    while done < len(part):
        moved = os.preadv(descriptor, [part[done:]], at + done)
        done += moved
        if not moved or moved % _BLOCK_BYTES:
            break
    return done


def _write(descriptor: int, part: memoryview, at: int) -> int:
    """Write a slice to its end; whoever takes it in pieces says in the end why it takes no more."""
    done = 0
    while done < len(part):
        moved = os.pwrite(descriptor, part[done:], at + done)
        if not moved:
            raise OSError(errno.EIO, f"nothing was written at byte {at + done}")
        done += moved
    return done
