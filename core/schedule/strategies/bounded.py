"""Bounded: an even interleave of both ends from calibrated weights, with a reorder window.

The order on paper is strict: place p comes from the tail whenever the tail is behind its share of
p + 1 places. The window says how many batches the order may deviate from that: 0 is the order on
paper, infinity behaves like `wrr`. Because both ends are taken evenly, little lies on the drive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddlp.core.schedule.strategies.base import Cut, Rates, Strategy
from ddlp.core.types import End, Prong

if TYPE_CHECKING:
    from ddlp.core.schedule.epoch import EpochSchedule

DEFAULT_WINDOW = 4


@dataclass(frozen=True)
class Bounded(Strategy):
    """An even order, kept as strictly as asked for."""

    window: float = DEFAULT_WINDOW

    name = "bounded"
    summary = "An even, calibrated interleave of both ends; a window bounds how far it deviates."

    def settle(self, epoch: EpochSchedule, rates: Rates, calibrated: bool) -> None:
        """Fix the tail's share, counted from what was dealt before."""
        cpu, csd = rates[Prong.CPU], rates[Prong.CSD]
        if "share" in epoch.settled or not calibrated or cpu is None or csd is None:
            return
        heads, tails = epoch.dealt[End.HEAD], epoch.dealt[End.TAIL]
        epoch.settle(share=csd / (cpu + csd), heads=heads, tails=tails)

    def carried(self, settled: Mapping[str, float], cut: Cut) -> dict[str, float]:
        """The same share, counted from the same place."""
        if "share" not in settled:
            return {}
        heads, tails = settled.get("heads", 0) - cut.heads, settled.get("tails", 0) - cut.tails
        return {"share": settled["share"], "heads": heads, "tails": tails}

    def wanted(self, epoch: EpochSchedule, rates: Rates) -> list[End]:
        """The end that is due on paper, and the other one as far as the window allows."""
        share = epoch.settled.get("share", 0.0)  # until that is known, the head is due
        tails = epoch.dealt[End.TAIL] - epoch.settled.get("tails", 0)
        places = tails + epoch.dealt[End.HEAD] - epoch.settled.get("heads", 0) + 1
        behind = math.floor(share * places + 0.5) - tails
        due, other = (End.TAIL, End.HEAD) if behind > 0 else (End.HEAD, End.TAIL)
        off = behind if other is End.HEAD else 1 - behind
        return [due, other] if off <= self.window else [due]
