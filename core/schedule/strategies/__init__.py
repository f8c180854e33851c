"""Strategies: how the work is split between the prongs, and which batch a rank takes next.

Each is one file with a plan half (`sources`: where a prong takes its next batch from) and a pick
half (`pick`: what the loader takes next). To add one, write its file and name it here.
"""

from ddlp.core.errors import InvalidInput
from ddlp.core.schedule.strategies.base import Source, Strategy
from ddlp.core.schedule.strategies.mte import Mte
from ddlp.core.schedule.strategies.one_sided import CpuOnly, CsdOnly
from ddlp.core.schedule.strategies.wrr import Wrr

STRATEGIES: dict[str, Strategy] = {s.name: s for s in (Mte(), Wrr(), CpuOnly(), CsdOnly())}


def strategy(name: str) -> Strategy:
    """A strategy by its name."""
    if name not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise InvalidInput(f"there is no strategy {name!r}; choose one of {known}")
    return STRATEGIES[name]


__all__ = ["STRATEGIES", "Source", "Strategy", "strategy"]
