"""Where the seconds of one batch went while it was made."""

import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from ddlp.core.types import Prong, Spending, Stage

_FADING = 0.9
Timed = Annotated[float, Field(ge=0, le=1e8, allow_inf_nan=False)]
Sized = Annotated[int, Field(ge=0, lt=2**63)]
_RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class StageTimes:
    """What a worker says of a batch beside how long it took in all."""

    fetch_s: Timed = 0.0
    decode_s: Timed = 0.0
    transform_s: Timed = 0.0
    write_s: Timed = 0.0
    fetched_bytes: Sized = 0
    """Encoded bytes that were read."""
    peak_bytes: Sized = 0
    """The most memory that the process has had so far."""

    @property
    def seconds(self) -> dict[Stage, float]:
        """The stages by name."""
        return {
            Stage.FETCH: self.fetch_s,
            Stage.DECODE: self.decode_s,
            Stage.TRANSFORM: self.transform_s,
            Stage.WRITE: self.write_s,
        }

    def stretched(self, factor: float) -> "StageTimes":
        """The same on a processor that is slower."""
        return replace(
            self,
            fetch_s=self.fetch_s * factor,
            decode_s=self.decode_s * factor,
            transform_s=self.transform_s * factor,
            write_s=self.write_s * factor,
        )


NO_TIMES = StageTimes()


@dataclass
class PictureTimes:
    """Sums that grow while pictures are shown, and are taken once a batch."""

    fetch_s: float = 0.0
    decode_s: float = 0.0
    fetched_bytes: int = 0

    def take(self) -> "PictureTimes":
        """What was added since the last call."""
        taken = PictureTimes(self.fetch_s, self.decode_s, self.fetched_bytes)
        self.fetch_s, self.decode_s, self.fetched_bytes = 0.0, 0.0, 0
        return taken


class RecentWork:
    """What the prongs of a run spent their last batches on: says what is waited for with them."""

    def __init__(self) -> None:
        self._storage_s: dict[Prong, float] = {}
        self._all_s: dict[Prong, float] = {}

    def add(self, prong: Prong, times: StageTimes) -> None:
        """A batch was made; the ones before it count less and less."""
        storage_s = times.fetch_s + times.write_s
        all_s = storage_s + times.decode_s + times.transform_s
        self._storage_s[prong] = _FADING * self._storage_s.get(prong, 0.0) + storage_s
        self._all_s[prong] = _FADING * self._all_s.get(prong, 0.0) + all_s

    def blame(self, prongs: Mapping[Prong, float]) -> dict[Spending, float]:
        """What a rank waits for that waits for work of these prongs, as shares; none: for nobody's.

        Work of the host is storage or decoding, as its last batches were; a drive is a drive.
        """
        if not prongs:
            return {Spending.SCHEDULING: 1.0}
        host = prongs.get(Prong.CPU, 0.0)
        all_s = self._all_s.get(Prong.CPU, 0.0)
        storage = self._storage_s[Prong.CPU] / all_s if all_s > 0 else 0.0
        found = {
            Spending.STORAGE: host * storage,
            Spending.DECODE: host * (1.0 - storage),
            Spending.CSD: prongs.get(Prong.CSD, 0.0),
        }
        return {what: share for what, share in found.items() if share > 0}


def peak_bytes() -> int:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT_BYTES
