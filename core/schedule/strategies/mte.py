"""Moving towards each other: a split from calibrated rates, then a strict order.

n_cpu = N · t_csd / (t_cpu + t_csd). The loader takes the CPU share ascending, then the CSD share
descending, so the order is a function of (seed, epoch, split) and the split is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from ddlp.core.schedule.strategies.base import Source, Strategy
from ddlp.core.types import Prong

if TYPE_CHECKING:
    from ddlp.core.schedule.epoch import EpochSchedule


class Mte(Strategy):
    """Consistent: the order never depends on who was quicker after calibration."""

    name = "mte"
    summary = (
        "Moving towards each other: split fixed by calibration, one strict order (consistent)."
    )

    def settle(
        self, epoch: EpochSchedule, rates: Mapping[Prong, float | None], calibrated: bool
    ) -> None:
        """Fix the split when both prongs are calibrated, or when there is nothing left to split."""
        if epoch.split is not None:
            return
        frontier = epoch.frontier
        cpu, csd = rates[Prong.CPU], rates[Prong.CSD]
        if frontier.head >= frontier.tail:
            epoch.fix_split(frontier.head)
        elif calibrated and cpu is not None and csd is not None:
            share = round(epoch.batches * cpu / (cpu + csd))
            epoch.fix_split(min(max(share, frontier.head), frontier.tail))

    def sources(self, epoch: EpochSchedule, prong: Prong, alive: Set[Prong]) -> list[Source]:
        """Each prong its own share; both shares, in the order of delivery, when alone."""
        if epoch.split is None:
            stop = epoch.batches if prong is Prong.CPU else 0
            own = Source("head" if prong is Prong.CPU else "tail", stop)
            return (
                [own] if len(alive) > 1 or prong is Prong.CPU else [Source("head", epoch.batches)]
            )
        shares = {
            Prong.CPU: Source("head", epoch.split),
            Prong.CSD: Source("tail", epoch.split),
        }
        return [shares[prong]] if len(alive) > 1 else list(shares.values())

    def due(self, epoch: EpochSchedule, rank: int) -> int | None:
        """The CPU share ascending, then the CSD share descending."""
        position = epoch.next_position(rank)
        if epoch.split is None:
            # What the head has taken, or takes next, is the CPU's wherever the split will fall.
            return position if position <= epoch.frontier.head else None
        if position < epoch.split:
            return position
        return epoch.batches - 1 - (position - epoch.split)
