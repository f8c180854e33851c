"""Strategies: how the work is split between the prongs, and which batch is dealt next.

Each is one file with a plan half (`sources`: where a prong takes its next batch from) and a pick
half (`wanted`: from which end the loader takes next). To add one, write its file and name it here.
"""

from ddlp.core.errors import InvalidInput
from ddlp.core.schedule.strategies.base import Source, Strategy
from ddlp.core.schedule.strategies.bounded import DEFAULT_WINDOW, Bounded
from ddlp.core.schedule.strategies.cpu import CpuOnly
from ddlp.core.schedule.strategies.csd import CsdOnly
from ddlp.core.schedule.strategies.mte import Mte
from ddlp.core.schedule.strategies.replay import Replay
from ddlp.core.schedule.strategies.wrr import Wrr

STRATEGIES: dict[str, Strategy] = {
    s.name: s for s in (Mte(), Wrr(), Bounded(), CpuOnly(), CsdOnly(), Replay())
}
CHOICES = tuple(name for name in STRATEGIES if name != Replay.name)
"""What a run can be made with; a replay needs the run that it follows."""


def strategy(name: str, window: float | None = None) -> Strategy:
    """A strategy by its name; the reorder window is that of `bounded`."""
    if name not in CHOICES:
        raise InvalidInput(f"there is no strategy {name!r}; choose one of {', '.join(CHOICES)}")
    if window is None:
        return STRATEGIES[name]
    if name != Bounded.name or not window >= 0:
        raise InvalidInput(
            f"a reorder window of {window:g} does not fit strategy {name}; only bounded has one, "
            "of 0 or more"
        )
    return Bounded(window)


__all__ = [
    "CHOICES",
    "DEFAULT_WINDOW",
    "STRATEGIES",
    "Replay",
    "Source",
    "Strategy",
    "strategy",
]
