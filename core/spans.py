"""Spans: who did what when, in the server's time."""

from dataclasses import dataclass

from ddlp.core.types import Activity


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of one lane of the timeline."""

    lane: str
    """Who: a device's name, or `rank N`."""
    activity: Activity
    start_at: float
    """Seconds since 1970 by the server's clock."""
    seconds: float
    epoch: int
    batch: int | None = None
    """Which batch it was about; None for a wait, which is not about one."""
    note: str = ""
    """What else there is to say: the path that was read by, what was waited for."""
