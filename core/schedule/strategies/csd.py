"""The other baseline: all work on the CSD prong, delivered in the order it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddlp.core.schedule.strategies.base import Rates, Strategy
from ddlp.core.types import End, Prong

if TYPE_CHECKING:
    from ddlp.core.schedule.epoch import EpochSchedule


class CsdOnly(Strategy):
    """Everything on the CSD prong, from the tail."""

    name = "csd"
    summary = "Computational storage only, in order from the tail: the other baseline."
    prongs = (Prong.CSD,)

    def wanted(self, epoch: EpochSchedule, rates: Rates) -> list[End]:
        """Descending."""
        return [End.TAIL]
