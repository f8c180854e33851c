"""Weighted round robin: no split; the ends steal towards each other until they meet.

The loader takes from the ends in proportion to the live rates of the prongs, and never waits for
one side while the other is ready. The choices made are recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddlp.core.schedule.strategies.base import Rates, Strategy
from ddlp.core.types import End, Prong

if TYPE_CHECKING:
    from ddlp.core.schedule.epoch import EpochSchedule

_PRONG = {End.HEAD: Prong.CPU, End.TAIL: Prong.CSD}


class Wrr(Strategy):
    """Efficient: whoever is ready is taken."""

    name = "wrr"
    summary = "Weighted round robin: ends meet where they meet, ready batches first (efficient)."

    def wanted(self, epoch: EpochSchedule, rates: Rates) -> list[End]:
        """The end that is furthest behind its share, then the other."""
        return sorted(End, key=lambda end: (epoch.dealt[end] + 1) / (rates[_PRONG[end]] or 1.0))
