"""The baselines: all work on one prong, delivered strictly in the order it is made."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from ddlp.core.schedule.strategies.base import Source, Strategy, strict_pick
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

    def pick(
        self, epoch: EpochSchedule, rank: int, rates: Mapping[Prong, float | None]
    ) -> int | None:
        """Ascending."""
        return strict_pick(epoch, rank, epoch.next_position(rank))


class CsdOnly(Strategy):
    """Everything on the CSD prong, from the tail."""

    name = "csd"
    summary = "Computational storage only, in order from the tail: the other baseline."
    prongs = (Prong.CSD,)

    def sources(self, epoch: EpochSchedule, prong: Prong, alive: Set[Prong]) -> list[Source]:
        """The whole range from the tail."""
        return [Source("tail", 0)]

    def pick(
        self, epoch: EpochSchedule, rank: int, rates: Mapping[Prong, float | None]
    ) -> int | None:
        """Descending."""
        return strict_pick(epoch, rank, epoch.batches - 1 - epoch.next_position(rank))
