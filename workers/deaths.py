"""How the processes of a pool died: its main process sees it, and tells those that live.

A process that takes over the work of a dead one says to the server how that one ended: a batch that
crashes its workers is to be told from a worker that was killed.
"""

import mmap
import struct

from ddlp.core.process import oom_kills
from ddlp.core.schedule import Death

_ENTRY = struct.Struct("<iii")
_MOST = 256


class Deaths:
    """The last deaths, in memory that is shared with the processes that are forked later."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _MOST * _ENTRY.size)
        self._count = 0
        self._oom_kills = oom_kills()

    def note(self, process: int, exit_code: int) -> None:
        """A process has ended; only the main process says so."""
        before, self._oom_kills = self._oom_kills, oom_kills()
        place = self._count % _MOST
        entry = process, exit_code, self._oom_kills > before
        _ENTRY.pack_into(self._memory, place * _ENTRY.size, *entry)
        self._count += 1

    def of(self, process: int) -> Death | None:
        """How a process ended, if it was seen."""
        for at, exit_code, oom in _ENTRY.iter_unpack(self._memory):
            if at == process and process:
                return Death(exit_code, bool(oom))
        return None
