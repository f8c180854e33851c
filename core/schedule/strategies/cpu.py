"""The baseline without a drive: all work on the CPU prong, delivered in the order it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddlp.core.schedule.strategies.base import Rates, Strategy
from ddlp.core.types import End, Prong

if TYPE_CHECKING:
    from ddlp.core.schedule.epoch import EpochSchedule


class CpuOnly(Strategy):
    """Everything on the CPU prong, from the head."""

    name = "cpu"
    summary = "CPU workers only, in order: the baseline without a drive."
    prongs = (Prong.CPU,)

    def wanted(self, epoch: EpochSchedule, rates: Rates) -> list[End]:
        """Ascending."""
        return [End.HEAD]
