"""Whatever is lost, doubled, late, damaged or dead: each batch is delivered exactly once."""

import random

import pytest

from ddlp.core.errors import Refused
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import STRATEGIES, RunSchedule
from ddlp.core.types import BatchState, Prong
from tests.core.schedule.simulation import Simulation

SEEDS = range(40)


def random_plan(seed: int) -> RunPlan:
    chance = random.Random(seed)
    batches = chance.choice([1, 2, 3, 7, 20, 41])
    world_size = min(batches, chance.choice([1, 1, 2, 3]))
    return RunPlan(batches * 4 - chance.randrange(4), 4, chance.choice([1, 2, 3]), seed, world_size)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_epoch_is_exact_without_faults(name: str) -> None:
    for seed in SEEDS:
        simulation = Simulation(seed, random_plan(seed), name, faults=0.0)
        simulation.run()
        simulation.check()


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_epoch_is_exact_with_faults(name: str) -> None:
    for seed in SEEDS:
        simulation = Simulation(seed, random_plan(seed), name, faults=0.15)
        simulation.run()
        simulation.check()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("faults", [0.0, 0.05, 0.2, 0.4])
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_epoch_is_exact_over_many_seeds(name: str, faults: float) -> None:
    for seed in range(500):
        simulation = Simulation(seed, random_plan(seed), name, faults)
        simulation.run()
        simulation.check()


def test_the_windows_bound_what_lies_in_the_store() -> None:
    for name in STRATEGIES:
        for seed in range(12):
            simulation = Simulation(seed, RunPlan(200, 4, 1, 5), name, faults=0.2)
            simulation.run()
            for prong, most in simulation.most_stored.items():
                # What a rank holds a step for (three at a time here) is made beyond the limit.
                assert most <= simulation.schedule.limits.stored[prong] + 3


def test_both_prongs_make_some_under_wrr_and_mte() -> None:
    for name in ("wrr", "mte"):
        simulation = Simulation(1, RunPlan(400, 4, 1, 1), name, faults=0.0)
        counts: dict[Prong, int] = {}
        original = simulation.schedule.changes

        def remember(original: object = original, counts: dict[Prong, int] = counts) -> object:
            assert callable(original)
            changes = original()
            for epoch in changes.epochs:
                counts.update(epoch.made_by)
            return changes

        simulation.schedule.changes = remember  # type: ignore[method-assign, assignment]
        simulation.run()
        assert counts[Prong.CPU] > counts[Prong.CSD] > 0
        assert sum(counts.values()) == 100


class SkippedFence(RunSchedule):
    """A broken scheduler: it takes any token."""

    def _held(self, epoch: int, index: int, token: int):  # type: ignore[no-untyped-def]
        batch = self.find(epoch, index)
        if batch is None:
            raise Refused("gone")
        return batch


class ForgetfulHand(RunSchedule):
    """A broken scheduler: a batch stays ready after it was handed out."""

    def fetch(self, rank: int, epoch: int, received: int, want: int):  # type: ignore[no-untyped-def]
        batches = super().fetch(rank, epoch, received, want)
        for batch in batches[1:2]:
            self.epochs[epoch].under_way.move(batch, BatchState.READY)
        return batches


class LostForEver(RunSchedule):
    """A broken scheduler: what expires is not given out again."""

    def expire(self, now: float):  # type: ignore[no-untyped-def]
        lost = super().expire(now)
        for batch in lost:
            self.epochs[batch.epoch].frontier.returned.discard(batch.index)
        return lost


class OffByOne(RunSchedule):
    """A broken scheduler: the ends pass each other by one batch."""

    def _take(self, epoch, prong, among):  # type: ignore[no-untyped-def]
        index = super()._take(epoch, prong, among)
        if index is not None and epoch.frontier.head == epoch.frontier.tail:
            epoch.frontier.head += 1
        return index if index != epoch.batches // 2 else None


@pytest.mark.parametrize("broken", [SkippedFence, ForgetfulHand, LostForEver, OffByOne])
def test_a_broken_scheduler_is_caught(broken: type[RunSchedule]) -> None:
    caught = 0
    for seed in range(6):
        simulation = Simulation(seed, RunPlan(60, 4, 2, seed), "wrr", faults=0.25)
        sound = simulation.schedule
        simulation.schedule = broken(sound.plan, sound.strategy, sound.limits)
        simulation.schedule.set_slots({Prong.CPU: 2, Prong.CSD: 1})
        try:
            simulation.run(steps=1500)
            simulation.check()
        except (AssertionError, KeyError, Refused):
            caught += 1
    assert caught > 0
