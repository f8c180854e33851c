"""Weighted round robin: no split; the ends steal towards each other until they meet.

The loader takes from the prongs in proportion to their live rates, and never waits for one side
while the other is ready.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from ddlp.core.schedule.strategies.base import Source, Strategy
from ddlp.core.types import Prong

if TYPE_CHECKING:
    from ddlp.core.schedule.epoch import EpochSchedule


class Wrr(Strategy):
    """Efficient: whoever is ready is taken; the choices made are recorded."""

    name = "wrr"
    summary = "Weighted round robin: ends meet where they meet, ready batches first (efficient)."

    def sources(self, epoch: EpochSchedule, prong: Prong, alive: Set[Prong]) -> list[Source]:
        """Each prong from its end, as far as there is work."""
        return [Source("head", epoch.batches)] if prong is Prong.CPU else [Source("tail", 0)]

    def pick(
        self, epoch: EpochSchedule, rank: int, rates: Mapping[Prong, float | None]
    ) -> int | None:
        """From the prong that is furthest behind its share, among those with something ready."""
        ready = {prong: epoch.under_way.first_ready(prong) for prong in self.prongs}
        candidates = [prong for prong in self.prongs if ready[prong] is not None]
        if not candidates:
            return None
        chosen = min(candidates, key=lambda p: (epoch.handed_of[p] + 1) / (rates[p] or 1.0))
        return ready[chosen]
