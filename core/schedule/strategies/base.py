"""What every strategy decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from ddlp.core.types import Prong

if TYPE_CHECKING:
    from ddlp.core.schedule.epoch import EpochSchedule


@dataclass(frozen=True)
class Source:
    """An end of the frontier that a prong may take from, and how far."""

    end: Literal["head", "tail"]
    stop: int


class Strategy(ABC):
    """A plan half and a pick half; stateless, all state lies in the epoch."""

    name: ClassVar[str]
    summary: ClassVar[str]
    prongs: ClassVar[tuple[Prong, ...]] = (Prong.CPU, Prong.CSD)

    def settle(  # noqa: B027 most strategies fix nothing
        self, epoch: EpochSchedule, rates: Mapping[Prong, float | None], calibrated: bool
    ) -> None:
        """Fix what the strategy fixes once the rates (batches/s) are known."""

    @abstractmethod
    def sources(self, epoch: EpochSchedule, prong: Prong, alive: Set[Prong]) -> list[Source]:
        """Where a prong takes its next batch from, in the order to try."""

    def due(self, epoch: EpochSchedule, rank: int) -> int | None:
        """The one batch this rank must get next, where the order is strict."""
        return None

    def pick(
        self, epoch: EpochSchedule, rank: int, rates: Mapping[Prong, float | None]
    ) -> int | None:
        """The batch this rank takes next, or None while it is not ready."""
        index = self.due(epoch, rank)
        return index if index is not None and epoch.is_ready(index) else None
