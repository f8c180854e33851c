"""Any plan, any interleaving of what workers and ranks do: everything is delivered once."""

from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.errors import Refused
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import Grant, Holder, Limits, Made, RunSchedule
from ddlp.core.types import Prong, TailPolicy
from tests.core.schedule.scenario import NAMES, draw

DEVICES = {"cpu": (Prong.CPU, 2), "csd": (Prong.CSD, 1)}
plans = st.builds(
    RunPlan,
    samples=st.integers(0, 23),
    batch_size=st.integers(1, 4),
    epochs=st.integers(1, 2),
    seed=st.just(1),
    world_size=st.integers(1, 4),
    tail=st.sampled_from(TailPolicy),
)
names = st.sampled_from([name for name in NAMES if name != "replay"])


@dataclass
class Bench:
    """A run whose every step is chosen from outside."""

    run: RunSchedule
    now: float = 0.0
    queued: list[Grant] = field(default_factory=list)
    claimed: list[Grant] = field(default_factory=list)
    epoch: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    taken: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.run.set_devices(DEVICES)
        self.epoch = [0] * self.run.plan.world_size
        self.received = [0] * self.run.plan.world_size

    @property
    def done(self) -> bool:
        """Whether every rank has had every epoch."""
        return min(self.epoch) >= self.run.plan.epochs

    def step(self, what: int, which: int) -> None:
        """One thing happens: leases go out, one is claimed or made, or a rank is fed."""
        self.now += 0.01
        if what == 0:
            self.queued += self.run.top_up(self.now)
        elif what == 1 and self.queued:
            self._claim(self.queued.pop(which % len(self.queued)))
        elif what == 2 and self.claimed:
            self._commit(self.claimed.pop(which % len(self.claimed)))
        elif what == 3:
            self._feed(which % len(self.epoch), 1 + which % 3)

    def finish(self) -> None:
        """Everything happens in turn until all is delivered."""
        for turn in range(4000):
            if self.done:
                return
            self.step(turn % 4, turn // 4)
        raise AssertionError(f"not delivered: {self.epoch} {self.received}")

    def _claim(self, grant: Grant) -> None:
        with suppress(Refused):
            holder = Holder(grant.prong.value, 1)
            self.run.claim(grant.epoch, grant.index, grant.token, holder, self.now)
            self.claimed.append(grant)

    def _commit(self, grant: Grant) -> None:
        with suppress(Refused):
            made = Made(grant.prong.value, "", 1, 1, 0.02, 0.02)
            self.run.commit(grant.epoch, grant.index, grant.token, made, self.now)

    def _feed(self, rank: int, want: int) -> None:
        epoch = self.epoch[rank]
        if epoch >= self.run.plan.epochs:
            return
        for batch in self.run.fetch(rank, epoch, self.received[rank], want):
            place = self.received[rank] * self.run.plan.world_size + rank
            self.taken.setdefault(epoch, []).append((place, batch.index, rank))
            self.received[rank] += 1
        self.run.consume(rank, epoch, self.received[rank])
        if self.run.rank_done(rank, epoch, self.received[rank]):
            self.epoch[rank] += 1
            self.received[rank] = 0
        self.run.changes()


def schedule(plan: RunPlan, name: str, stored: int = 8) -> RunSchedule:
    limits = Limits(stored=dict.fromkeys(Prong, stored), calibration_batches=1)
    return RunSchedule(plan, draw(0, name, 0.0).strategy, limits)


@given(
    plan=plans,
    name=names.filter(lambda name: name not in ("cpu", "csd")),
    stored=st.integers(1, 8),
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=120),
)
@settings(max_examples=150, deadline=None)
def test_any_interleaving_delivers_every_batch_once(
    plan: RunPlan, name: str, stored: int, steps: list[tuple[int, int]]
) -> None:
    bench = Bench(schedule(plan, name, stored))
    for what, which in steps:
        bench.step(what, which)
    bench.finish()
    assert bench.run.finished
    for epoch in range(plan.epochs):
        taken = bench.taken.get(epoch, [])
        assert sorted(index for _, index, _ in taken) == list(range(plan.batches))
        assert sorted(place for place, _, _ in taken) == list(range(plan.batches))
        ranks = [rank for _, _, rank in taken]
        assert [ranks.count(r) for r in range(plan.world_size)] == [plan.rank_batches] * len(
            bench.epoch
        )


@given(plan=plans, name=names)
@settings(max_examples=100, deadline=None)
def test_the_batches_of_an_epoch_hold_each_sample_once_or_as_the_tail_says(
    plan: RunPlan, name: str
) -> None:
    run = schedule(plan, name)
    bench = Bench(run)
    bench.finish()
    whole = plan.whole
    places = [p for i in range(plan.batches) for a, b in whole.places(i) for p in range(a, b)]
    assert len(places) - len(set(places)) == whole.repeated()
    assert plan.samples - len(set(places)) == whole.dropped()
    if plan.tail is TailPolicy.SHORT:
        assert set(places) == set(range(plan.samples))


@pytest.mark.parametrize("batches", [1, 2, 3, 7])
@pytest.mark.parametrize("first", list(Prong))
def test_when_both_ends_reach_for_the_last_batch_one_gets_it(batches: int, first: Prong) -> None:
    run = schedule(RunPlan(batches, 1, 1, 0), "wrr", 1)
    order = [first, *(prong for prong in Prong if prong is not first)]
    run.strategy = type("Ordered", (type(run.strategy),), {"prongs": tuple(order)})()
    run.set_devices({prong.value: (prong, 1) for prong in Prong})
    given_out: list[int] = []
    received = 0
    for _ in range(2 * batches):
        grants = run.top_up(0.0)
        given_out += [grant.index for grant in grants]
        for grant in grants:
            run.claim(0, grant.index, grant.token, Holder(grant.prong.value, 1), 0.0)
            made = Made(grant.prong.value, "", 1, 1, 1.0, 1.0)
            assert run.commit(0, grant.index, grant.token, made, 1.0)
        received += len(run.fetch(0, 0, received, batches))
        run.consume(0, 0, received)
    assert sorted(given_out) == list(range(batches))
    assert run.finished


@pytest.mark.parametrize("winner", [0, 1])
@pytest.mark.parametrize("late", ["before", "after"])
def test_of_two_that_race_for_the_last_batch_the_first_commit_wins(winner: int, late: str) -> None:
    run = schedule(RunPlan(1, 1, 1, 0), "wrr")
    run.set_devices({"slow": (Prong.CSD, 1)})
    run.learn("slow", 100.0, 1)
    first = run.top_up(0.0)[0]
    run.claim(0, 0, first.token, Holder("slow", 1), 0.0)
    run.set_devices({"slow": (Prong.CSD, 1), "quick": (Prong.CPU, 1)})
    run.learn("quick", 1.0, 1)
    second = run.top_up(1.0)[0]
    assert second.index == first.index
    run.claim(0, 0, second.token, Holder("quick", 1), 1.0)
    tokens = [(first.token, "slow"), (second.token, "quick")]
    (won, device), (lost, loser) = tokens[winner], tokens[1 - winner]
    assert run.commit(0, 0, won, Made(device, "", 1, 1, 1.0, 1.0), 2.0)
    if late == "after":
        assert [batch.index for batch in run.fetch(0, 0, 0, 1)] == [0]
    with pytest.raises(Refused):
        run.commit(0, 0, lost, Made(loser, "", 1, 1, 1.0, 1.0), 3.0)
    assert run.epochs[0].made_by.total() == 1
