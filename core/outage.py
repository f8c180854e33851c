"""Says that something fails for a while: once when it begins, rarely meanwhile, once at its end.

Whoever tries again asks it for the pause, which grows.
"""

import logging
import time
from collections.abc import Callable

_FIRST_PAUSE_S = 0.1
_AGAIN_S = 60.0
"""It is told so often that it still fails."""
_SETTLED_S = 5.0
"""It is over once nothing has failed for so long: what fails now and then is one outage."""


class Outage:
    """What fails, since when and how often."""

    def __init__(
        self,
        log: logging.Logger,
        what: str,
        longest_pause_s: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self._what = log, what
        """Such as `the database cannot be written`."""
        self._longest_pause_s = longest_pause_s
        self._clock = clock
        self._count = 0
        self._began_at = self._failed_at = self._told_at = 0.0

    def failed(self, error: Exception, *, trace: bool = False) -> float:
        """Note one more failure; returns how long to pause before the next attempt."""
        now = self._clock()
        cause = getattr(error, "orig", None) or error  # of a database, without the statement
        self._count += 1
        self._failed_at = now
        if self._count == 1:
            self._began_at = self._told_at = now
            shown = error if trace else None
            self._log.error("%s: %s; trying again", self._what, cause, exc_info=shown)
        elif now >= self._told_at + _AGAIN_S:
            self._told_at = now
            lasts_s = now - self._began_at
            text = "%s for %.0f s now, %d times; last: %s"
            self._log.error(text, self._what, lasts_s, self._count, cause)
        return float(min(self._longest_pause_s, _FIRST_PAUSE_S * 2 ** min(self._count - 1, 30)))

    def succeeded(self) -> None:
        """Note that it works; what has worked for a while is over."""
        if self._count and self._clock() >= self._failed_at + _SETTLED_S:
            lasted_s = self._failed_at - self._began_at
            text = "over: %s, for %.0f s, %d times"
            self._log.warning(text, self._what, lasted_s, self._count)
            self._count = 0
