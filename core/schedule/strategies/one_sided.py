"""The baselines: all work on one prong, delivered strictly in the order it is made."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from ddlp.core.schedule.strategies.base import Source, Strategy
from ddlp.core.types import Prong

if TYPE_CHECKING:
    from ddlp.core.schedule.epoch import EpochSchedule


class CpuOnly(Strategy):
    """Everything on the CPU prong, from the head."""

    name = "cpu"
    summary = "CPU workers only, in order: the baseline without a drive."
    prongs = (Prong.CPU,)

    def sources(self, epoch: EpochSchedule, prong: Prong, alive: Set[Prong]) -> list[Source]:
        """The whole range from the head."""
        return [Source("head", epoch.batches)]

    def due(self, epoch: EpochSchedule, rank: int) -> int | None:
        """Ascending."""
        return epoch.next_position(rank)


class CsdOnly(Strategy):
    """Everything on the CSD prong, from the tail."""

    name = "csd"
    summary = "Computational storage only, in order from the tail: the other baseline."
    prongs = (Prong.CSD,)

    def sources(self, epoch: EpochSchedule, prong: Prong, alive: Set[Prong]) -> list[Source]:
        """The whole range from the tail."""
        return [Source("tail", 0)]

    def due(self, epoch: EpochSchedule, rank: int) -> int | None:
        """Descending."""
        return epoch.batches - 1 - epoch.next_position(rank)
