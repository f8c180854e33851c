"""The end of an epoch waits for nobody: the last batch is made when the best plan would make it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, product

import pytest

from ddlp.core.errors import Refused
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import Grant, Holder, Limits, Made, Pace, RunSchedule, strategy
from ddlp.core.types import Prong

STRATEGIES = ("wrr", "bounded", "mte")


@dataclass
class Floor:
    """Devices of constant speed and a rank that takes whatever is ready."""

    name: str
    batches: int
    batch_s: dict[Prong, float]
    slots: dict[Prong, int]
    stalls: tuple[Prong, int] | None = None
    """Which prong never finishes its so-manieth batch, counted from 0."""
    known: tuple[Prong, ...] = tuple(Prong)
    """Prongs whose speed was calibrated before."""
    now: float = 0.0
    last_made_at: float = 0.0
    begun: dict[Prong, int] = field(default_factory=lambda: dict.fromkeys(Prong, 0))
    _events: list[tuple[float, int, int, Grant | None, Prong]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)
    _queue: dict[Prong, list[Grant]] = field(default_factory=lambda: {p: [] for p in Prong})
    _free: dict[Prong, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limits = Limits(stored=dict.fromkeys(Prong, self.batches + 8), message_leases=1)
        self.run = RunSchedule(RunPlan(self.batches, 1, 1, 0), strategy(self.name), limits)
        self.run.set_devices({prong.value: (prong, self.slots[prong]) for prong in Prong})
        for prong in self.known:
            seconds = self.batch_s[prong]
            self.run.fleet.recall(prong.value, prong, Pace(10, seconds))
        self._free = {prong: list(range(1, self.slots[prong] + 1)) for prong in Prong}

    def work(self) -> float:
        """Make the epoch; returns when its last batch was made."""
        made = 0
        self._advance()
        while made < self.batches:
            self.now, _, process, grant, prong = heapq.heappop(self._events)
            if grant is not None:
                made += self._finish(grant, process, prong)
            self._advance()
        return self.last_made_at

    def _finish(self, grant: Grant, process: int, prong: Prong) -> bool:
        self._free[prong].append(process)
        made = Made(prong.value, "", 1, 1, self.batch_s[prong], 0.0)
        try:
            self.run.commit(grant.epoch, grant.index, grant.token, made, self.now)
        except Refused:
            return False
        self.last_made_at = self.now
        return True

    def _advance(self) -> None:
        self.run.fetch(0, 0, self.run.epochs[0].dealt_to(0) if 0 in self.run.epochs else 0, 10**6)
        self.run.expire(self.now)
        for grant in self.run.top_up(self.now):
            self._queue[grant.prong].append(grant)
        for prong in Prong:
            while self._queue[prong] and self._free[prong]:
                self._begin(self._queue[prong].pop(0), prong)
        if self.stalls is not None and (not self._events or self._events[0][3] is not None):
            heapq.heappush(self._events, (self.now + 0.1, next(self._numbers), 0, None, Prong.CPU))

    def _begin(self, grant: Grant, prong: Prong) -> None:
        process = self._free[prong][0]
        try:
            holder = Holder(prong.value, process)
            self.run.claim(grant.epoch, grant.index, grant.token, holder, self.now)
        except Refused:
            return
        self._free[prong].pop(0)
        stalled = self.stalls == (prong, self.begun[prong])
        self.begun[prong] += 1
        if not stalled:
            done_at = self.now + self.batch_s[prong]
            heapq.heappush(self._events, (done_at, next(self._numbers), process, grant, prong))


def best_s(batches: int, batch_s: dict[Prong, float], slots: dict[Prong, int]) -> float:
    """When the last batch is made if every one goes where it is finished first."""
    free = [(batch_s[prong], batch_s[prong]) for prong in Prong for _ in range(slots[prong])]
    heapq.heapify(free)
    done_s = 0.0
    for _ in range(batches):
        done_s, each_s = heapq.heappop(free)
        heapq.heappush(free, (done_s + each_s, each_s))
    return done_s


SPEEDS = [
    (1.0, 1.0),
    (1.0, 1.3),
    (1.0, 2.0),
    (1.0, 3.7),
    (1.0, 10.0),
    (1.0, 25.0),
    (1.0, 100.0),
    (1.0, 0.5),
    (1.0, 0.07),
    (0.3, 1.9),
]
SLOTS = [(1, 1), (2, 1), (4, 1), (3, 2), (8, 3), (1, 4)]


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(("cpu_s", "csd_s"), SPEEDS)
def test_the_last_batch_is_made_within_half_a_fast_batch_of_the_best_plan(
    name: str, cpu_s: float, csd_s: float
) -> None:
    batch_s = {Prong.CPU: cpu_s, Prong.CSD: csd_s}
    for (cpus, csds), batches in product(SLOTS, (1, 2, 3, 5, 8, 13, 29, 60)):
        slots = {Prong.CPU: cpus, Prong.CSD: csds}
        ends_s = Floor(name, batches, batch_s, slots).work()
        best = best_s(batches, batch_s, slots)
        late = f"{batches} batches on {slots}: {ends_s:.2f} s, not {best:.2f} s"
        assert ends_s <= best + min(cpu_s, csd_s) / 2 + 1e-6, late


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("stalled", list(Prong))
@pytest.mark.parametrize("csd_s", [0.5, 1.0, 4.0])
def test_what_a_device_stalls_at_in_the_end_is_raced(
    name: str, stalled: Prong, csd_s: float
) -> None:
    batch_s, slots = {Prong.CPU: 1.0, Prong.CSD: csd_s}, {Prong.CPU: 2, Prong.CSD: 1}
    calm = Floor(name, 24, batch_s, slots)
    ends_s = calm.work()
    last = calm.begun[stalled] - 1
    stalls_s = Floor(name, 24, batch_s, slots, stalls=(stalled, last)).work()
    slow_s = max(batch_s.values())
    limits = Limits()
    patience_s = max(limits.overdue_floor_s, limits.overdue_factor * slow_s)
    assert ends_s <= stalls_s <= ends_s + patience_s + slow_s + 0.5
    assert patience_s + slow_s < limits.lease_factor * slow_s


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_drive_of_unknown_speed_does_not_hold_up_the_end(name: str) -> None:
    batch_s, slots = {Prong.CPU: 1.0, Prong.CSD: 100.0}, {Prong.CPU: 2, Prong.CSD: 2}
    floor = Floor(name, 24, batch_s, slots, known=(Prong.CPU,))
    assert floor.work() <= best_s(24, batch_s, slots) + 2.0
