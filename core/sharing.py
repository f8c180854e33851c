"""Divides the energy of a meter: idle, what runs used, and what nobody here answers for."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Shares(Generic[K]):
    """The parts of some joules; together they are all of them."""

    idle_j: float
    other_j: float
    runs_j: dict[K, float]


def divide(joules: float, idle_j: float, work_s: Mapping[K, float], busy_s: float) -> Shares[K]:
    """Divide what a meter counted by who worked for how long, out of all that was busy.

    Args:
        joules: What was counted.
        idle_j: What would have been counted had nobody worked.
        work_s: Busy seconds of each run.
        busy_s: Busy seconds of all programs; fewer than the runs' own are not believed.
    """
    idle_j = min(max(idle_j, 0.0), joules)
    active_j = joules - idle_j
    whole_s = max(busy_s, sum(work_s.values()))
    if whole_s <= 0:
        return Shares(idle_j, active_j, {})
    runs_j = {run: active_j * seconds / whole_s for run, seconds in work_s.items()}
    return Shares(idle_j, max(0.0, active_j - sum(runs_j.values())), runs_j)


def split(joules: float, work_s: Mapping[K, float]) -> dict[K, float]:
    """Divide joules among those who worked; nothing where nobody did."""
    whole_s = sum(work_s.values())
    return {run: joules * s / whole_s for run, s in work_s.items()} if whole_s > 0 else {}


class LowestPower:
    """The least watts that were seen: what a device draws whatever it does."""

    def __init__(self) -> None:
        self.watts: float | None = None

    def idle_j(self, joules: float, seconds: float) -> float:
        """What of the joules of some seconds was idle, this stretch of time considered."""
        if seconds <= 0:
            return 0.0
        watts = joules / seconds
        self.watts = watts if self.watts is None else min(self.watts, watts)
        return self.watts * seconds
