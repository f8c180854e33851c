"""Drives the scheduling core with a virtual clock and seeded faults, and checks its promises."""

import random
from collections import Counter

from ddlp.core.errors import Refused
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import Batch, Limits, Made, RunSchedule, strategy
from ddlp.core.types import BatchState, Prong

SLOTS = {Prong.CPU: 2, Prong.CSD: 1}


class Simulation:
    """One run: queues that lose and double messages, devices that stall and die, hungry ranks."""

    def __init__(self, seed: int, plan: RunPlan, name: str, faults: float) -> None:
        self.chance = random.Random(seed)
        self.plan = plan
        self.faults = faults
        stored = {Prong.CPU: self.chance.randint(1, 8), Prong.CSD: self.chance.randint(1, 60)}
        limits = Limits(stored=stored, failures=10**6, losses=10**6)
        self.schedule = RunSchedule(plan, strategy(name), limits)
        self.schedule.set_slots(SLOTS)
        self.now = 0.0
        self.queues: dict[Prong, list[Batch]] = {prong: [] for prong in Prong}
        self.stale: list[tuple[int, int, int]] = []
        self.epoch = [0] * plan.world_size
        self.received = [0] * plan.world_size
        self.delivered: dict[tuple[int, int], list[int]] = {}
        self.most_stored: Counter[Prong] = Counter()

    def run(self, steps: int = 20_000) -> None:
        """Until every rank has all epochs; fails when that takes too long."""
        for _ in range(steps):
            if all(epoch >= self.plan.epochs for epoch in self.epoch):
                return
            self.now += self.chance.uniform(0.0, 0.5)
            self.step()
        raise AssertionError(f"not finished after {steps} steps: {self.schedule.epochs}")

    def step(self) -> None:
        """Something happens, then the schedule may advance."""
        for prong in Prong:
            self._work(prong)
        self._repeat_something_stale()
        rank = self.chance.randrange(self.plan.world_size)
        if self.epoch[rank] < self.plan.epochs:
            self._train(rank)
        if self.chance.random() < self.faults / 4:
            self.schedule.device_gone(self.chance.choice(["cpu", "csd"]), Prong.CPU)
        self.schedule.expire(self.now)
        for lease in self.schedule.top_up(self.now):
            if not self._fault():
                self.queues[lease.prong].append(_copy(lease))
            if self._fault():
                self.queues[lease.prong].append(_copy(lease))
        self.schedule.changes()
        for prong in Prong:
            stored = sum(epoch.stored(prong) for epoch in self.schedule.epochs.values())
            self.most_stored[prong] = max(self.most_stored[prong], stored)

    def _fault(self) -> bool:
        return self.chance.random() < self.faults

    def _work(self, prong: Prong) -> None:
        if not self.queues[prong] or self.chance.random() < (0.3 if prong is Prong.CPU else 0.8):
            return
        place = self.chance.randrange(len(self.queues[prong])) if self._fault() else 0
        lease = self.queues[prong].pop(place)
        key = lease.epoch, lease.index, lease.token
        try:
            self.schedule.claim(*key, prong.value, self.now)
            if self._fault():
                return
            if self._fault():
                self.schedule.fail(*key, "it broke")
                return
            self.schedule.commit(*key, made(lease.index), self.now)
        except Refused:
            pass
        self.stale.append(key)

    def _repeat_something_stale(self) -> None:
        if self.stale and self._fault():
            epoch, index, token = self.chance.choice(self.stale)
            found = self.schedule.find(epoch, index)
            if found is not None and found.token == token and found.state is BatchState.READY:
                return
            try:
                self.schedule.commit(epoch, index, token, made(index), self.now)
            except Refused:
                return
            assert found is not None
            assert found.token == token

    def _train(self, rank: int) -> None:
        epoch = self.epoch[rank]
        batches = self.schedule.fetch(rank, epoch, self.received[rank], want=3)
        if self._fault():
            return  # the answer got lost; the rank asks again
        for batch in batches:
            if self._fault():
                self.schedule.damaged(epoch, batch.index, batch.token, "a bit flipped")
                break
            assert batch.step == self.received[rank]
            self.delivered.setdefault((epoch, rank), []).append(batch.index)
            self.received[rank] += 1
        self.schedule.consume(rank, epoch, self.received[rank], self.now)
        if self.schedule.rank_done(rank, epoch, self.received[rank]):
            self.epoch[rank] += 1
            self.received[rank] = 0

    def check(self) -> None:
        """Every batch of every epoch went to exactly one rank, once, in fair shares."""
        for epoch in range(self.plan.epochs):
            taken = Counter(
                index
                for (number, _), batches in self.delivered.items()
                if number == epoch
                for index in batches
            )
            assert taken == Counter(range(self.plan.batches)), f"epoch {epoch}"
            for rank in range(self.plan.world_size):
                count = len(self.delivered.get((epoch, rank), []))
                assert count == self.plan.rank_batches(rank)
        assert self.schedule.finished


def made(index: int, seconds: float = 1.0) -> Made:
    """A report of a finished batch."""
    return Made(f"/store/{index}", 4096, index, seconds, seconds)


def _copy(lease: Batch) -> Batch:
    """What a message holds: the lease as it was when it was sent."""
    return Batch(
        lease.epoch, lease.index, lease.prong, lease.token, lease.leased_at, lease.deadline
    )
