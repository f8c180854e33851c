"""How the processes of a pool died: its main process sees it, and tells those that live.

A process that takes over the work of a dead one says to the server how that one ended: a batch that
crashes its workers is to be told from a worker that was killed.
"""

import mmap
import struct

from ddlp.core.process import oom_kills
from ddlp.core.schedule import Death

_COUNT = struct.Struct("<q")
_ENTRY = struct.Struct("<iii")
_MOST = 256


class Deaths:
    """The last deaths, in memory that is shared with the processes that are forked later."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _COUNT.size + _MOST * _ENTRY.size)
        self._oom_kills = oom_kills()

    def note(self, process: int, exit_code: int) -> None:
        """A process has ended; only the main process says so."""
        before, self._oom_kills = self._oom_kills, oom_kills()
        count = self._count()
        _ENTRY.pack_into(self._memory, _at(count), process, exit_code, self._oom_kills > before)
        _COUNT.pack_into(self._memory, 0, count + 1)

    def of(self, process: int) -> Death | None:
        """How a process ended, if it was seen: the last one of that number."""
        count = self._count()
        for number in range(count - 1, max(-1, count - 1 - _MOST), -1):
            died, exit_code, oom = _ENTRY.unpack_from(self._memory, _at(number))
            if died == process:
                return Death(exit_code, bool(oom))
        return None

    def _count(self) -> int:
        """How many were ever noted."""
        count: int = _COUNT.unpack_from(self._memory)[0]
        return count


def _at(number: int) -> int:
    return _COUNT.size + number % _MOST * _ENTRY.size
