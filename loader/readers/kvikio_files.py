"""What is used of KvikIO: reads into registered memory, and the way that they took."""

import logging
import os
from typing import Any, Protocol

_THREADS = 4
"""Slices of a file that are read at once, where nobody set a number: KvikIO's own is one."""
_THREAD_SETTINGS = ("KVIKIO_NTHREADS", "KVIKIO_NUM_THREADS")

log = logging.getLogger(__name__)


class Files(Protocol):
    """Reads files into memory of an accelerator."""

    least_bytes: int
    """Smaller reads pass through the host."""

    def read(self, path: str, memory: Any, nbytes: int, offset: int) -> int:
        """Fill memory from a place in a file; how many bytes came. Raises RuntimeError."""

    def passed_host(self) -> bool:
        """Whether bytes passed through the host since this was last asked."""

    def register(self, memory: Any) -> bool:
        """Have memory ready for many reads; False where it is not taken, which is only slower."""

    def unregister(self, memory: Any) -> None:
        """Before registered memory goes."""

    def close(self) -> None:
        """Stop counting."""


class KvikioFiles:
    """Reads with KvikIO. Only where its probe found nothing wrong: it needs the driver."""

    def __init__(self) -> None:
        import kvikio
        import kvikio.defaults

        self._kvikio = kvikio
        self.least_bytes = int(kvikio.defaults.get("gds_threshold"))
        if not any(name in os.environ for name in _THREAD_SETTINGS):
            kvikio.defaults.set("num_threads", _THREADS)
        self._monitor = kvikio.SummaryMonitor()
        self._host_bytes = 0

    def read(self, path: str, memory: Any, nbytes: int, offset: int) -> int:
        """Wait until all slices are there."""
        with self._kvikio.CuFile(path, "r") as file:
            return int(file.read(memory, nbytes, offset))

    def passed_host(self) -> bool:
        """KvikIO falls back for each file by itself, and says so nowhere else."""
        before, now = self._host_bytes, self._monitor.get().by_backend["POSIX"]
        self._host_bytes = int(now["bytes_transferred"])
        return self._host_bytes > before

    def register(self, memory: Any) -> bool:
        """Fails for memory that shares an allocation with what is registered already."""
        try:
            self._kvikio.memory_register(memory)
        except RuntimeError as error:
            log.debug("memory is read to without being registered: %s", error)
            return False
        return True

    def unregister(self, memory: Any) -> None:
        """At the end of a process the driver may be gone before."""
        try:
            self._kvikio.memory_deregister(memory)
        except RuntimeError as error:
            log.debug("memory stays registered until the process ends: %s", error)

    def close(self) -> None:
        """The monitor is the only thing that runs on."""
        self._monitor.stop()
