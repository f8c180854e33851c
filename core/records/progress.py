"""How far packing has come, who wants to know, and whether it is still wanted."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ddlp.core.errors import Conflict

_REPORT_EVERY_S = 0.25


@dataclass(frozen=True)
class PackProgress:
    """How far it is."""

    samples: int = 0
    """Packed, whatever came of it."""
    records: int = 0
    skipped: int = 0
    """Samples that could not be read."""
    origin_bytes: int = 0
    """Of these samples, as they were."""
    bytes: int = 0
    """As they are now."""
    shards: int = 0
    """Written to the end."""
    current: str = ""

    def __add__(self, more: "PackProgress") -> "PackProgress":
        return PackProgress(
            self.samples + more.samples,
            self.records + more.records,
            self.skipped + more.skipped,
            self.origin_bytes + more.origin_bytes,
            self.bytes + more.bytes,
            self.shards + more.shards,
            more.current or self.current,
        )


Report = Callable[[PackProgress], None]
Stop = Callable[[], bool]


def ignore(_: PackProgress) -> None:
    """For whom it does not matter how far it is."""


def never() -> bool:
    """For what stays wanted to its end."""
    return False


class Pace:
    """Counts, reports a few times a second, and raises once the work is no longer wanted."""

    def __init__(self, report: Report, stop: Stop, stopped: str) -> None:
        self._report, self._stop, self._stopped = report, stop, stopped
        self._next_s = 0.0
        self.now = PackProgress()

    def add(self, more: PackProgress) -> None:
        """Count what was done since."""
        self.now += more
        if time.monotonic() < self._next_s:
            return
        if self._stop():
            raise Conflict(self._stopped)
        self._report(self.now)
        self._next_s = time.monotonic() + _REPORT_EVERY_S

    def end(self) -> None:
        """Report the last state."""
        self._report(self.now)
