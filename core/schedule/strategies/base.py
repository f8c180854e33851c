"""What every strategy decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ddlp.core.types import End, Prong

if TYPE_CHECKING:
    from ddlp.core.schedule.epoch import EpochSchedule

Rates = Mapping[Prong, float | None]
"""Batches a second by prong; None while nothing is known."""


@dataclass(frozen=True)
class Source:
    """An end of the frontier that a prong may take from, and how far."""

    end: End
    stop: int


@dataclass(frozen=True)
class Cut:
    """Where an epoch was cut anew: what had been dealt, and how batches are numbered since."""

    heads: int
    tails: int
    first_before: int
    first: int
    full: int


class Strategy(ABC):
    """A plan half (`sources`) and a pick half (`wanted`); what it fixes lies in the epoch."""

    name: ClassVar[str]
    summary: ClassVar[str]
    prongs: ClassVar[tuple[Prong, ...]] = (Prong.CPU, Prong.CSD)

    def settle(  # noqa: B027 most strategies fix nothing
        self, epoch: EpochSchedule, rates: Rates, calibrated: bool
    ) -> None:
        """Fix what the strategy fixes once the rates are known."""

    def carried(self, settled: Mapping[str, float], cut: Cut) -> dict[str, float]:
        """What it had fixed for an epoch, for what is left of it after a cut."""
        return {}

    def sources(self, epoch: EpochSchedule, prong: Prong, alive: Set[Prong]) -> list[Source]:
        """Where a prong takes its next batch to make from, in the order to try."""
        return [head(epoch)] if prong is Prong.CPU else [tail(epoch)]

    @abstractmethod
    def wanted(self, epoch: EpochSchedule, rates: Rates) -> list[End]:
        """From which end the next batch is dealt: the first of these that has one ready."""


def head(epoch: EpochSchedule) -> Source:
    """All there is, from the head."""
    return Source(End.HEAD, epoch.segment.last)


def tail(epoch: EpochSchedule) -> Source:
    """All there is, from the tail."""
    return Source(End.TAIL, epoch.segment.first)
