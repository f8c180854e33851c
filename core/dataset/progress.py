"""What a scan is asked to do, and how far it has come."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ddlp.core.errors import Conflict, InvalidInput

_REPORT_EVERY_S = 0.25
_MAX_THREADS = 256


@dataclass(frozen=True)
class ScanOptions:
    """How a scan goes about it."""

    allowed: tuple[Path, ...] | None = None
    """Folders that links and manifests may lead to, beside the dataset's own; None: anywhere."""
    check: Literal["quick", "full"] = "quick"
    """`quick` reads heads, and the ends of JPEGs; `full` decodes every sample."""
    as_classes: bool = False
    """Take folders such as `train` and labels such as `a|b` as the names of classes."""
    threads: int = min(16, 4 * (os.cpu_count() or 1))

    def __post_init__(self) -> None:
        if self.check not in ("quick", "full"):
            raise InvalidInput(f"check={self.check!r} is neither quick nor full")
        if not 1 <= self.threads <= _MAX_THREADS:
            raise InvalidInput(f"threads={self.threads} is not between 1 and {_MAX_THREADS}")


@dataclass(frozen=True)
class ScanProgress:
    """How far a scan is; `found` stands still once `done` begins to rise."""

    found: int = 0
    done: int = 0
    """Samples looked at, whatever came of it."""
    rejected: int = 0
    bytes: int = 0
    """Encoded bytes of the samples taken."""
    current: str = ""


class Progress:
    """Counts, reports a few times a second, and notices that a scan is no longer wanted."""

    def __init__(
        self, what: Path, report: Callable[[ScanProgress], None], stop: Callable[[], bool]
    ) -> None:
        self._what = what
        self._report = report
        self._stop = stop
        self._now = ScanProgress()
        self._next_s = 0.0

    def add(
        self, found: int = 0, done: int = 0, rejected: int = 0, size: int = 0, current: str = ""
    ) -> None:
        """Count what happened since."""
        now = self._now
        self._now = replace(
            now,
            found=now.found + found,
            done=now.done + done,
            rejected=now.rejected + rejected,
            bytes=now.bytes + size,
            current=current.encode(errors="backslashreplace").decode() or now.current,
        )
        self.poll()

    def poll(self) -> None:
        """If it is time, report, and raise if the scan is to stop."""
        if time.monotonic() < self._next_s:
            return
        if self._stop():
            raise Conflict(f"the scan of {self._what} was stopped; nothing of it was kept")
        self._report(self._now)
        self._next_s = time.monotonic() + _REPORT_EVERY_S

    def end(self) -> None:
        """Report the last state."""
        self._report(self._now)
