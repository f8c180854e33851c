"""Moving towards each other: a split from calibrated rates, then a strict order.

n_cpu = N · t_csd / (t_cpu + t_csd). The loader takes the CPU share ascending, then the CSD share
descending, so the order is a function of (seed, epoch, split) and the split is recorded. Who makes
a batch is another matter: at the end of an epoch the faster side helps the slower one out.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from ddlp.core.schedule.strategies.base import Cut, Rates, Source, Strategy, tail
from ddlp.core.types import End, Prong

if TYPE_CHECKING:
    from ddlp.core.schedule.epoch import EpochSchedule

_SPLIT = "split"


class Mte(Strategy):
    """Consistent: the order never depends on who was quicker after calibration."""

    name = "mte"
    summary = (
        "Moving towards each other: split fixed by calibration, one strict order (consistent)."
    )

    def settle(self, epoch: EpochSchedule, rates: Rates, calibrated: bool) -> None:
        """Fix the split when both prongs are calibrated, or when there is nothing left to split."""
        if _SPLIT in epoch.settled:
            return
        frontier, segment = epoch.frontier, epoch.segment
        cpu, csd = rates[Prong.CPU], rates[Prong.CSD]
        if frontier.head >= frontier.tail:
            epoch.settle(split=frontier.head)
        elif calibrated and cpu is not None and csd is not None:
            share = segment.first + round(segment.full * cpu / (cpu + csd))
            epoch.settle(split=min(max(share, frontier.head), frontier.tail))

    def carried(self, settled: Mapping[str, float], cut: Cut) -> dict[str, float]:
        """The same split, in the new numbers."""
        if _SPLIT not in settled:
            return {}
        left = settled[_SPLIT] - cut.first_before - cut.heads
        return {_SPLIT: cut.first + min(max(0.0, left), float(cut.full))}

    def sources(self, epoch: EpochSchedule, prong: Prong, alive: Set[Prong]) -> list[Source]:
        """Each prong from its end; when alone, in the order of delivery."""
        if len(alive) > 1:
            return super().sources(epoch, prong, alive)
        return [Source(End.HEAD, int(epoch.settled.get(_SPLIT, epoch.segment.last))), tail(epoch)]

    def wanted(self, epoch: EpochSchedule, rates: Rates) -> list[End]:
        """The CPU share ascending, then the CSD share descending."""
        index = epoch.next(End.HEAD)
        split = epoch.settled.get(_SPLIT)
        return [End.HEAD] if split is None or index is None or index < split else [End.TAIL]
