"""Counts what happens in a run second by second, in memory, until the ledger takes it over."""

from collections import defaultdict
from dataclasses import dataclass

PERIOD_S = 1
KEPT_S = 10


@dataclass
class Bucket:
    """One second of one source: `cpu`, `csd` or `trainer`."""

    batches: int = 0
    images: int = 0
    nbytes: int = 0
    busy_s: float = 0.0
    cpu_s: float = 0.0
    joules: float | None = None
    waited_s: float = 0.0
    trained_s: float = 0.0
    emulated: bool = False
    joules_unknown: bool = False
    """Whether something of it was made by a device whose watts nobody knows."""

    def add(self, other: "Bucket") -> None:
        """Count another bucket in."""
        for name in ("batches", "images", "nbytes", "busy_s", "cpu_s", "waited_s", "trained_s"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.joules is not None:
            self.joules = (self.joules or 0.0) + other.joules
        self.emulated |= other.emulated
        self.joules_unknown |= other.joules_unknown


@dataclass
class ReadCount:
    """What was read by one path."""

    batches: int = 0
    bytes: int = 0


class Telemetry:
    """The buckets of one run that are not in the database yet, and the last few for live rates."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, str], Bucket] = defaultdict(Bucket)
        self._recent: dict[tuple[int, str], Bucket] = defaultdict(Bucket)
        self._reads: dict[tuple[str, str], ReadCount] = defaultdict(ReadCount)

    def count_read(self, path: str, reason: str, batches: int, nbytes: int) -> None:
        """Count batches that a trainer has read by a path."""
        count = self._reads[path, reason]
        count.batches += batches
        count.bytes += nbytes

    def take_reads(self) -> dict[tuple[str, str], ReadCount]:
        """What was counted since the last call."""
        reads, self._reads = self._reads, defaultdict(ReadCount)
        return reads

    def add(self, now: float, source: str, bucket: Bucket) -> None:
        """Count something that happened now."""
        self._open[int(now), source].add(bucket)
        self._recent[int(now), source].add(bucket)

    def closed(self, now: float) -> dict[tuple[int, str], Bucket]:
        """The buckets of past seconds, which are then forgotten here."""
        done = {key: self._open.pop(key) for key in list(self._open) if key[0] < int(now)}
        for key in [key for key in self._recent if key[0] < now - KEPT_S]:
            del self._recent[key]
        return done

    def images_per_s(self, now: float, source: str) -> float:
        """The rate over the last whole seconds."""
        last = int(now)
        seconds = range(last - 5, last)
        return (
            sum(self._recent[at, source].images for at in seconds if (at, source) in self._recent)
            / 5
        )

    def wait_share(self) -> float | None:
        """The share of the trainer's last seconds that it spent waiting."""
        buckets = [b for (_, source), b in self._recent.items() if source == "trainer"]
        waited, trained = sum(b.waited_s for b in buckets), sum(b.trained_s for b in buckets)
        return waited / (waited + trained) if waited + trained > 0 else None
