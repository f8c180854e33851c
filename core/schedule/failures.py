"""How long batches and devices rest after failures, and when a batch is given up.

One error proves nothing: what failed once is tried again at once. After that the pauses grow, for
the batch and for the device, so that an error of the moment passes and costs little.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ddlp.core.schedule.limits import Limits

_REST_S = 0.5
LONGEST_REST_S = 15.0


def rest_s(failures: int) -> float:
    """How long to rest after so many failures in a row: not after the first."""
    if failures < 2:
        return 0.0
    return min(LONGEST_REST_S, _REST_S * 2.0 ** min(failures - 2, 30))


@dataclass
class Failures:
    """What became of the attempts at one batch that failed, by device."""

    count: int = 0
    since: float = 0.0
    until: float = 0.0
    """Before that, none of the devices that failed gets the batch again."""
    devices: dict[str, float] = field(default_factory=dict)
    """When the batch failed first on each."""

    def add(self, device: str, now: float) -> None:
        """A device could not make the batch."""
        if not self.count:
            self.since = now
        self.count += 1
        self.until = now + rest_s(self.count)
        self.devices.setdefault(device, now)

    def rest_s(self, device: str, now: float) -> float:
        """Seconds for which a device does not get the batch again."""
        return max(0.0, self.until - now) if device in self.devices else 0.0

    def is_final(self, limits: Limits, now: float, witnesses: int) -> bool:
        """Whether to give the batch up: it failed for long enough.

        A few seconds are enough where the batch is to blame: `witnesses` devices failed at it and
        made others meanwhile. Where the devices may be to blame, they get more time to recover.
        """
        if self.count < limits.failures:
            return False
        lasts_s = now - self.since
        healthy = witnesses > 1 and lasts_s >= limits.failing_s
        return healthy or lasts_s >= limits.all_failing_s

    def told(self, now: float) -> str:
        """The failures in words, to stand behind the name of a batch."""
        where = ", ".join(sorted(self.devices))
        return f"failed {self.count} times in {now - self.since:.0f} s on {where}"
