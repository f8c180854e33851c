"""How long the processes of a device were busy, counted where their parent can see it."""

import mmap
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_CELL = struct.Struct("d")


class Usage:
    """A cell of shared memory for each process: made before they are forked, written by one each.

    A process that dies while it is busy leaves what it had counted before.
    """

    def __init__(self, slots: int, cores: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._slots = slots
        self._at_once = max(slots, cores)
        self._clock = clock
        self._cells = mmap.mmap(-1, slots * _CELL.size)
        self._since_s = clock()

    @contextmanager
    def busy(self, slot: int) -> Iterator[None]:
        """Count what happens in here as work of a process."""
        place = slot % self._slots * _CELL.size
        started_s = self._clock()
        try:
            yield
        finally:
            (before_s,) = _CELL.unpack_from(self._cells, place)
            _CELL.pack_into(self._cells, place, before_s + self._clock() - started_s)

    def seconds(self) -> tuple[float, float]:
        """Busy and idle seconds of the device so far: with half of its cores busy, half."""
        cells = _CELL.iter_unpack(self._cells[:])
        busy_s = sum(seconds for (seconds,) in cells) / self._at_once
        return busy_s, max(0.0, self._clock() - self._since_s - busy_s)
