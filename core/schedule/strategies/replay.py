"""Replay: follow the order that another run recorded, whoever makes the batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ddlp.core.deals import Deals
from ddlp.core.schedule.strategies.base import Rates, Strategy
from ddlp.core.types import End

if TYPE_CHECKING:
    from ddlp.core.schedule.epoch import EpochSchedule


@dataclass(frozen=True)
class Replay(Strategy):
    """Strict: each deal is the one that was recorded."""

    orders: Mapping[int, Deals] = field(default_factory=dict)
    """By epoch."""

    name = "replay"
    summary = "Follows the order that another run recorded, batch by batch."

    def wanted(self, epoch: EpochSchedule, rates: Rates) -> list[End]:
        """The end that was recorded for this place; the head where nothing was."""
        order = self.orders.get(epoch.number)
        if order is None or epoch.position >= len(order):
            return [End.HEAD]
        return [order[epoch.position]]
