"""What /proc says of a host: how long its processors were busy, and how much memory is in use."""

import os
from dataclasses import dataclass
from pathlib import Path

_BUSY = (0, 1, 2, 5, 6)
"""Columns of /proc/stat: user, nice, system, irq, softirq. User holds guests; stolen time and
waiting for a disk are not work of these processors."""


@dataclass(frozen=True)
class Processors:
    """All processors of a host since it was started."""

    busy_s: float
    cores: int


def processors(proc: Path) -> Processors | None:
    """Core-seconds that were not idle, and cores; None where the kernel does not say."""
    try:
        lines = (proc / "stat").read_text().splitlines()
        total = next(line for line in lines if line.startswith("cpu "))
        columns = [int(word) for word in total.split()[1:]]
        ticks = sum(columns[place] for place in _BUSY)
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    cores = sum(line.startswith("cpu") and line[3:4].isdecimal() for line in lines)
    return Processors(ticks / os.sysconf("SC_CLK_TCK"), max(1, cores))


def used_bytes(proc: Path) -> int | None:
    """Memory that could not be had without swapping; None where the kernel does not say."""
    try:
        lines = (proc / "meminfo").read_text().splitlines()
        sizes_kb = {line.split(":")[0]: int(line.split()[1]) for line in lines if ":" in line}
        return max(0, sizes_kb["MemTotal"] - sizes_kb["MemAvailable"]) * 1024
    except (OSError, ValueError, IndexError, KeyError):
        return None


class BusyTime:
    """Core-seconds that were not idle since it was made; they never shrink."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._last_s: float | None = None
        self.busy_s = 0.0
        self.cores = os.cpu_count() or 1
        self.known = self.look()

    def look(self) -> bool:
        """Read anew; False where it could not be read, and nothing was changed."""
        now = processors(self._proc)
        self.known = now is not None
        if now is not None:
            if self._last_s is not None:
                self.busy_s += max(0.0, now.busy_s - self._last_s)
            self._last_s, self.cores = now.busy_s, now.cores
        return self.known
