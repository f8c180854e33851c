"""Attempts that fail: devices rest and are tried again, others take over, few runs end over it."""

import re
from collections import Counter

import pytest

from ddlp.core.errors import Refused, Resting
from ddlp.core.schedule import Failed, Grant, Holder, RunSchedule, explain_wait
from ddlp.core.schedule.failures import LONGEST_REST_S, rest_s
from ddlp.core.types import BatchState, Prong
from tests.core.schedule.making import BOTH, claim, find, finish, key, made, schedule, take

TWO = {"a": (Prong.CPU, 1), "b": (Prong.CPU, 1)}
EIO = Failed("Input/output error")


def fail_first(run: RunSchedule, device: str, now: float = 0.0, why: Failed = EIO) -> Grant:
    """Have a device fail at the next lease of its prong."""
    lease = next(g for g in run.top_up(now) if g.prong is run.fleet.members[device].prong)
    claim(run, lease, now, device)
    run.fail(*key(lease), why, now)
    return lease


class Workers:
    """Devices that take what is given out and make it at once, or fail at it."""

    def __init__(self, run: RunSchedule, names: list[str], step_s: float = 0.1) -> None:
        self.run, self.names, self.now, self._step_s = run, names, 0.0, step_s
        self.broken: set[str] = set()
        self.poison: set[int] = set()
        self.failures: Counter[str] = Counter()
        self.made: Counter[str] = Counter()
        self.taken: list[int] = []
        self._refused_at = dict.fromkeys(names, -10.0)

    def work(self, seconds: float) -> None:
        """For so long, or until the run is over."""
        until = self.now + seconds
        while self.now < until and self.run.doom is None and not self.run.finished:
            self.run.expire(self.now)
            for grant in self.run.top_up(self.now):
                self._offer(grant)
            for batch in self.run.fetch(0, 0, len(self.taken), 9):
                self.taken.append(batch.index)
            self.run.consume(0, 0, len(self.taken))
            self.now += self._step_s

    def _offer(self, grant: Grant) -> None:
        """The device that has done least takes it; one that was refused lets others do so."""
        for name in sorted(self.names, key=lambda name: self.made[name] + self.failures[name]):
            if self.run.fleet.members[name].prong is not grant.prong:
                continue
            if self.now < self._refused_at[name] + 1.0:
                continue
            try:
                claim(self.run, grant, self.now, name)
            except Resting:
                self._refused_at[name] = self.now
                return
            except Refused:  # its message was on its way when the lease went to another prong
                return
            if name in self.broken or grant.index in self.poison:
                self.failures[name] += 1
                self.run.fail(*key(grant), EIO, self.now)
            else:
                self.made[name] += 1
                self.run.commit(*key(grant), made(name, 0.05), self.now)
            return


# One device


def test_one_error_is_tried_again_at_once() -> None:
    run = schedule("cpu", batches=1, epochs=1)
    first = fail_first(run, "cpu")
    [again] = run.top_up(0.0)
    assert again.index == first.index
    finish(run, again)
    assert run.held_up is None


@pytest.mark.parametrize("lasts_s", [0.4, 1.0, 5.0, 30.0])
def test_errors_that_pass_end_no_run_of_a_single_device(lasts_s: float) -> None:
    run = schedule("cpu", batches=40, epochs=1)
    workers = Workers(run, ["cpu"])
    workers.broken = {"cpu"}
    workers.work(lasts_s)
    assert workers.failures["cpu"] >= 2
    assert run.doom is None
    workers.broken = set()
    workers.work(lasts_s + 60.0)
    assert workers.taken == list(range(40))


def test_the_pauses_of_a_device_that_fails_grow_up_to_a_limit() -> None:
    run = schedule("cpu", batches=100, epochs=1, all_failing_s=10_000.0)
    workers = Workers(run, ["cpu"])
    workers.broken = {"cpu"}
    workers.work(300.0)
    rests = sum(rest_s(n) for n in range(2, 8))
    assert workers.failures["cpu"] <= 2 * (7 + (300.0 - rests) / LONGEST_REST_S)
    assert [rest_s(n) for n in (1, 2, 3, 4, 99, 10**6)] == [0.0, 0.5, 1.0, 2.0, 15.0, 15.0]


def test_while_its_only_device_rests_a_run_says_so_and_says_why() -> None:
    run = schedule("cpu", batches=3, epochs=1)
    fail_first(run, "cpu")
    fail_first(run, "cpu")
    said = "device cpu fails and rests: Input/output error"
    assert run.top_up(0.1) == []
    assert run.held_up == said
    run.fetch(0, 0, 0, 1)
    assert explain_wait(run, 0, 0.1) == said
    for lease in run.top_up(0.6):
        finish(run, lease, 0.6)
    assert run.held_up is None


def test_a_run_whose_only_device_fails_for_too_long_has_failed() -> None:
    run = schedule("cpu", batches=3, epochs=1, all_failing_s=60.0)
    workers = Workers(run, ["cpu"])
    workers.broken = {"cpu"}
    workers.work(59.0)
    assert run.doom is None
    workers.work(60.0)
    assert run.doom is not None
    assert re.fullmatch(
        r"batch 0 of epoch 0 failed \d+ times in [67]\d s on cpu: Input/output error", run.doom
    )


def test_after_a_rest_a_device_is_tried_with_one_slot_until_it_has_made_a_batch() -> None:
    run = schedule("cpu", batches=40, epochs=1, devices={"cpu": (Prong.CPU, 8)})
    leases = run.top_up(0.0)
    assert len(leases) == 16
    for lease in leases:
        claim(run, lease, process=lease.index + 1)
    for lease in leases:
        run.fail(*key(lease), EIO, 0.0)
    assert run.fleet.members["cpu"].failures == 2, "the others were begun before"
    probe = run.top_up(0.5)
    assert len(probe) == 2
    finish(run, probe[0], 0.5)
    assert len(run.top_up(0.5)) > 2


def test_a_device_that_was_started_anew_need_not_rest() -> None:
    run = schedule("cpu", batches=3, epochs=1)
    fail_first(run, "cpu")
    fail_first(run, "cpu")
    assert run.top_up(0.1) == []
    run.device_gone("cpu", Prong.CPU)
    assert run.top_up(0.1)


# Several devices


@pytest.mark.parametrize("name", ["wrr", "mte", "bounded"])
@pytest.mark.parametrize(("broken", "sound"), [("csd", "cpu"), ("cpu", "csd")])
def test_the_other_prong_takes_over_what_a_broken_device_cannot_make(
    name: str, broken: str, sound: str
) -> None:
    run = schedule(name, batches=40, epochs=1)
    workers = Workers(run, list(BOTH))
    workers.broken = {broken}
    workers.work(200.0)
    assert run.doom is None
    assert sorted(workers.taken) == list(range(40))
    assert workers.made == {sound: 40}
    assert workers.failures[broken] < 20


def test_the_other_device_of_the_prong_takes_over_too() -> None:
    run = schedule("cpu", batches=200, epochs=1, devices=TWO)
    workers = Workers(run, list(TWO))
    workers.broken = {"a"}
    workers.work(200.0)
    assert workers.taken == list(range(200))
    assert workers.made == {"b": 200}


def test_a_resting_device_is_refused_and_the_lease_goes_to_another_at_once() -> None:
    run = schedule("cpu", batches=10, epochs=1, devices=TWO)
    *_, lease = run.top_up(0.0)
    for index in (0, 1):
        batch = run.epochs[0].under_way[index]
        run.claim(0, index, batch.token, Holder("a", 1), 0.0)
        run.fail(0, index, batch.token, EIO, 0.0)
    with pytest.raises(Resting, match="a failed lately") as refusal:
        claim(run, lease, 0.1, "a")
    assert refusal.value.rest_s == pytest.approx(0.4)
    assert find(run, lease).state is BatchState.LOST
    [again] = run.top_up(0.1)
    claim(run, again, 0.1, "b")


def test_what_a_device_has_begun_it_may_finish_while_it_rests() -> None:
    run = schedule("cpu", batches=10, epochs=1, devices={"cpu": (Prong.CPU, 3)})
    begun, *others = run.top_up(0.0)
    claim(run, begun, process=9)
    for lease in others[:2]:
        claim(run, lease, process=lease.index)
        run.fail(*key(lease), EIO, 0.0)
    claim(run, begun, 0.1, process=9)
    assert run.commit(*key(begun), made("cpu"), 0.2)


def test_what_waits_for_a_prong_that_rests_goes_to_the_other() -> None:
    run = schedule("wrr", batches=4, epochs=1)
    mine = [grant for grant in run.top_up(0.0) if grant.prong is Prong.CPU]
    run.device_gone("csd", Prong.CSD, died=False)
    run.set_devices({"cpu": BOTH["cpu"]})
    assert len(mine) == 2
    for lease in mine[:1]:
        claim(run, lease)
        run.fail(*key(lease), EIO, 0.0)
    fail_first(run, "cpu")
    assert not run.epochs[0].under_way.in_flight()
    run.set_devices(BOTH)
    assert {grant.prong for grant in run.top_up(0.1)} == {Prong.CSD}


def test_a_batch_that_fails_everywhere_ends_the_run_and_names_the_devices() -> None:
    run = schedule("cpu", batches=60, epochs=1, devices=TWO)
    workers = Workers(run, list(TWO))
    workers.poison = {7}
    workers.work(9.0)
    assert run.expected_failure is None
    workers.work(30.0)
    assert run.expected_failure is not None
    assert re.fullmatch(
        r"batch 7 of epoch 0 failed \d+ times in [12]\d s on a, b: Input/output error",
        run.expected_failure,
    )
    assert workers.made["a"] + workers.made["b"] >= 7, "all that could be made was"


def test_an_outage_that_all_devices_share_ends_nothing_sooner_than_one_of_a_single_device() -> None:
    run = schedule("cpu", batches=60, epochs=1, devices=TWO)
    workers = Workers(run, list(TWO))
    workers.broken = set(TWO)
    workers.work(50.0)
    assert run.expected_failure is None
    workers.broken = set()
    workers.work(100.0)
    assert workers.taken == list(range(60))


def test_a_batch_that_one_device_cannot_make_is_made_by_the_other() -> None:
    run = schedule("wrr", batches=40, epochs=1)
    workers = Workers(run, list(BOTH))
    poisoned_for_the_drive = {index for index in range(40) if index % 3 == 0}
    offer = workers._offer

    def choosy(grant: Grant) -> None:
        workers.poison = poisoned_for_the_drive if grant.prong is Prong.CSD else set()
        offer(grant)

    workers._offer = choosy  # type: ignore[method-assign]
    workers.work(200.0)
    assert run.doom is None
    assert sorted(workers.taken) == list(range(40))


def test_an_error_of_code_needs_no_time_to_end_a_run() -> None:
    run = schedule("cpu", batches=1, epochs=1)
    run.top_up(0.0)
    now = 0.0
    for _ in range(3):
        assert run.doom is None
        now += 5.0
        lease = next(iter(run.top_up(now)), None) or _queued(run)
        claim(run, lease, now)
        run.fail(*key(lease), Failed("TypeError: no", bug=True), now)
    assert run.doom == "batch 0 of epoch 0 failed 3 times in 10 s on cpu: TypeError: no"


def _queued(run: RunSchedule) -> Grant:
    [batch] = run.epochs[0].under_way.in_flight()
    return Grant(batch.prong, 0, batch.index, batch.token, (), 0)


def test_failures_before_a_batch_was_made_are_not_held_against_it() -> None:
    run = schedule("cpu", batches=2, epochs=1, all_failing_s=60.0)
    fail_first(run, "cpu")
    [batch] = take(run, 1)
    assert (batch.failures, batch.failed.count) == (1, 0)


def test_a_step_that_waits_for_a_batch_which_fails_says_which_and_when_it_is_tried_again() -> None:
    run = schedule("cpu", batches=1, epochs=1, devices=TWO)
    now = 0.0
    for device in ("a", "b", "a", "b"):
        now += 2.0
        fail_first(run, device, now)
        run.fleet.begin_anew(device)
    run.fetch(0, 0, 0, 1)
    assert explain_wait(run, 0, now + 0.5) == (
        "batch 0 of epoch 0, which failed 4 times in 6 s on a, b and is tried again in 1.5 s: "
        "Input/output error"
    )
