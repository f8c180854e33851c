"""Counts what happens in a run, in memory, until the ledger takes it over once a second."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ddlp.core.throughput import images_per_s
from ddlp.core.types import Spending, Stage

PERIODS_S = (1, 10, 60)
KEPT_S = 60
"""For how long single seconds are kept for live figures."""
RATE_S = 5
"""Over so many whole seconds live rates are taken at least: large batches come more rarely."""
_STEPS = 3
"""So many batches make a rate, and so many that do not come make it 0."""
TRAINER = "trainer"
WORK_STAGES = (Stage.FETCH, Stage.DECODE, Stage.TRANSFORM, Stage.WRITE)
"""What a worker is at while it makes a batch."""


@dataclass
class Bucket:
    """Some time of one source: a prong, `trainer`, or another that joules are counted for."""

    batches: int = 0
    images: int = 0
    measured_images: int = 0
    """Those that trainers received in measured time: `core/throughput.py`."""
    measured_s: float = 0.0
    nbytes: int = 0
    fetched_bytes: int = 0
    busy_s: float = 0.0
    cpu_s: float = 0.0
    memory_byte_s: float = 0.0
    joules_modelled: float = 0.0
    joules_measured: float = 0.0
    queue_s: float = 0.0
    fetch_s: float = 0.0
    decode_s: float = 0.0
    transform_s: float = 0.0
    write_s: float = 0.0
    read_s: float = 0.0
    transfer_s: float = 0.0
    spent_training_s: float = 0.0
    spent_storage_s: float = 0.0
    spent_network_s: float = 0.0
    spent_decode_s: float = 0.0
    spent_csd_s: float = 0.0
    spent_transfer_s: float = 0.0
    spent_scheduling_s: float = 0.0
    spent_startup_s: float = 0.0
    peak_bytes: int = field(default=0, metadata={"sum": False})
    emulated: bool = field(default=False, metadata={"sum": False})
    joules_unknown: bool = field(default=False, metadata={"sum": False})
    """Whether something of it was made by a device whose watts nobody knows."""

    def add(self, other: "Bucket") -> None:
        """Count another bucket in."""
        mine, more = vars(self), vars(other)
        for name in SUMS:
            if more[name]:
                mine[name] += more[name]
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)
        self.emulated |= other.emulated
        self.joules_unknown |= other.joules_unknown

    @property
    def spent_s(self) -> dict[Spending, float]:
        """A trainer's seconds by what they were spent on."""
        return {what: getattr(self, spent_column(what)) for what in Spending}

    @property
    def stages_s(self) -> dict[Stage, float]:
        """Seconds by stage."""
        return {stage: getattr(self, f"{stage}_s") for stage in Stage}


SUMS = tuple(entry.name for entry in fields(Bucket) if entry.metadata.get("sum", True))


def spent_column(what: Spending) -> str:
    """Under which name seconds that were spent on something are kept."""
    return f"spent_{what.value}_s"


def spent(seconds: Mapping[Spending, float]) -> Bucket:
    """A trainer's account as a bucket."""
    values: dict[str, Any] = {spent_column(what): value for what, value in seconds.items()}
    return Bucket(**values)


@dataclass
class ReadCount:
    """What was read by one path."""

    batches: int = 0
    bytes: int = 0


@dataclass
class Counted:
    """Figures, and the seconds from the first to the last in which they were counted."""

    bucket: Bucket
    first_at: int
    last_at: int

    def add(self, bucket: Bucket, second: int) -> None:
        """Count what happened in a second."""
        self.bucket.add(bucket)
        self.last_at = max(self.last_at, second)


@dataclass
class News:
    """What the ledger is to take over."""

    seconds: dict[tuple[int, str], Bucket]
    """By second and source."""
    tallies: dict[tuple[int, str, str], "Counted"]
    """By epoch, source and device."""
    reads: dict[tuple[str, str], ReadCount]


class Telemetry:
    """What happened in one run and is not in the database yet, and its last minute."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, str], Bucket] = defaultdict(Bucket)
        self._tallies: dict[tuple[int, str, str], Counted] = {}
        self._reads: dict[tuple[str, str], ReadCount] = defaultdict(ReadCount)
        self._saved_until = 0

    def count_read(self, path: str, reason: str, batches: int, nbytes: int) -> None:
        """Count batches that a trainer has read by a path."""
        count = self._reads[path, reason]
        count.batches += batches
        count.bytes += nbytes

    def add(
        self, now: float, source: str, bucket: Bucket, epoch: int = -1, device: str = ""
    ) -> None:
        """Count something that happened now."""
        second = int(now)
        self._seconds[second, source].add(bucket)
        key = epoch, source, device
        if key not in self._tallies:
            self._tallies[key] = Counted(Bucket(), second, second)
        self._tallies[key].add(bucket, second)

    def take(self, now: float, all_of_it: bool = False) -> News | None:
        """What is new, once a second has passed since the last call; None where none has."""
        until = int(now) + all_of_it
        if until <= self._saved_until:
            return None
        closed = {
            key: bucket
            for key, bucket in self._seconds.items()
            if self._saved_until <= key[0] < until
        }
        self._saved_until = until
        for key in [key for key in self._seconds if key[0] < now - KEPT_S]:
            del self._seconds[key]
        tallies, self._tallies = self._tallies, {}
        reads, self._reads = self._reads, defaultdict(ReadCount)
        return News(closed, tallies, reads)

    def recent(self, now: float, source: str, seconds: int = KEPT_S) -> Bucket:
        """The last whole seconds of a source together."""
        found = Bucket()
        for at in range(int(now) - seconds, int(now)):
            if (at, source) in self._seconds:
                found.add(self._seconds[at, source])
        return found

    def images_per_s(self, now: float, source: str) -> float:
        """The rate over the last whole seconds: as many as a few of its batches take."""
        seconds = self._rate_seconds(now, source)
        return self.recent(now, source, seconds).images / seconds if seconds else 0.0

    def throughput(self, now: float) -> float | None:
        """What trainers received over the same seconds; None where that was not measured."""
        recent = self.recent(now, TRAINER, self._rate_seconds(now, TRAINER))
        return images_per_s(recent.measured_images, recent.measured_s)

    def _rate_seconds(self, now: float, source: str) -> int:
        """Over how many whole seconds a rate is taken; 0 when too many batches did not come."""
        until = int(now)
        busy = {at: b for (at, s), b in self._seconds.items() if s == source and b.batches}
        times = [at for at in busy if until - KEPT_S <= at < until]
        if not times:
            return 0
        first, last = min(times), max(times)
        apart_s = (last - first) / max(1, sum(busy[at].batches for at in times) - 1)
        if until - last > RATE_S + _STEPS * apart_s:
            return 0
        begun_s = math.ceil(until - first + apart_s)
        return min(KEPT_S, max(RATE_S, min(begun_s, math.ceil(_STEPS * apart_s))))
