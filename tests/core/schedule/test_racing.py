"""A second lease on what takes too long: the first commit wins, the other is fenced off."""

import signal

import pytest

from ddlp.core.errors import Held, Refused
from ddlp.core.schedule import Batch, Death, Failed, Grant, Holder, RunSchedule
from ddlp.core.types import BatchState, Prong
from tests.core.schedule.making import claim, find, key, made, paced, schedule

TWO_HOSTS = {"a": (Prong.CPU, 1), "b": (Prong.CPU, 1)}


def raced() -> tuple[RunSchedule, Grant, Grant]:
    """One batch that a slow drive holds; its first lease, and the second that races it."""
    run = schedule("wrr", batches=1, epochs=1, devices={"csd": (Prong.CSD, 1)})
    [slow] = run.top_up(0.0)
    claim(run, slow, 0.0)
    run.set_devices({"csd": (Prong.CSD, 1), "cpu": (Prong.CPU, 1)})
    paced(run, csd=10.0, cpu=1.0)
    [quick] = run.top_up(1.0)
    return run, slow, quick


def batch_of(run: RunSchedule) -> Batch:
    batch = run.find(0, 0)
    assert batch is not None
    return batch


def test_an_idle_prong_races_what_a_slower_one_holds_at_the_end_of_an_epoch() -> None:
    run, slow, quick = raced()
    assert (quick.index, quick.prong) == (slow.index, Prong.CPU)
    assert quick.token > slow.token
    assert batch_of(run).tokens == (slow.token, quick.token)


def test_a_batch_is_raced_once_at_a_time() -> None:
    run, _, _ = raced()
    assert run.top_up(50.0) == []


def test_nothing_is_raced_while_there_is_other_work() -> None:
    run = paced(schedule("wrr", batches=30, epochs=1), cpu=1.0, csd=10.0)
    grants = run.top_up(0.0)
    assert len({grant.index for grant in grants}) == len(grants)


def test_nothing_is_raced_by_what_is_no_quicker() -> None:
    run = schedule("wrr", batches=1, epochs=1, devices={"csd": (Prong.CSD, 1)})
    claim(run, run.top_up(0.0)[0])
    run.set_devices({"csd": (Prong.CSD, 1), "cpu": (Prong.CPU, 1)})
    paced(run, csd=1.0, cpu=1.0)
    assert run.top_up(0.5) == []


@pytest.mark.parametrize("winner", ["slow", "quick"])
def test_the_first_commit_wins_and_the_other_is_refused(winner: str) -> None:
    run, slow, quick = raced()
    claim(run, quick, 1.0)
    first, second = (slow, quick) if winner == "slow" else (quick, slow)
    assert run.commit(*key(first), made(first.prong.value), 2.0)
    batch = batch_of(run)
    assert (batch.token, batch.device, batch.prong) == (
        first.token,
        first.prong.value,
        first.prong,
    )
    assert batch.rival is None
    with pytest.raises(Refused):
        run.commit(*key(second), made(second.prong.value), 2.0)
    [void] = run.changes().void
    assert (void.device, void.token) == (second.prong.value, second.token)
    assert run.epochs[0].made_by == {first.prong: 1}
    assert all(run.epochs[0].in_flight(prong) == 0 for prong in Prong)


def test_a_second_lease_that_was_not_claimed_leaves_nothing() -> None:
    run, slow, quick = raced()
    run.commit(*key(slow), made("csd"), 2.0)
    assert run.changes().void == []
    with pytest.raises(Refused):
        claim(run, quick, 2.0)


def test_the_second_attempt_may_fail_and_the_first_goes_on() -> None:
    run, slow, quick = raced()
    claim(run, quick, 1.0)
    run.fail(*key(quick), Failed("it broke"), 0.0)
    assert batch_of(run).rival is None
    with pytest.raises(Refused):
        run.commit(*key(quick), made("cpu"), 2.0)
    assert run.commit(*key(slow), made("csd"), 2.0)


@pytest.mark.parametrize("claimed", [True, False])
def test_the_first_attempt_may_be_lost_and_the_second_takes_its_place(claimed: bool) -> None:
    run, slow, quick = raced()
    if claimed:
        claim(run, quick, 1.0)
    run.device_gone("csd", Prong.CSD)
    batch = batch_of(run)
    assert (batch.token, batch.prong, batch.attempt) == (quick.token, Prong.CPU, 2)
    assert batch.state is (BatchState.LEASED if claimed else BatchState.QUEUED)
    assert run.epochs[0].frontier.returned == set()
    with pytest.raises(Refused):
        run.commit(*key(slow), made("csd"), 2.0)
    claim(run, quick, 2.0)
    assert run.commit(*key(quick), made("cpu"), 2.0)


def test_a_dead_rival_is_taken_back_and_the_first_goes_on() -> None:
    run, slow, quick = raced()
    claim(run, quick, 1.0)
    run.device_gone("cpu", Prong.CPU)
    assert batch_of(run).tokens == (slow.token,)
    assert run.epochs[0].in_flight(Prong.CPU) == 0


def test_a_raced_batch_that_kills_its_workers_is_given_up_and_fails_the_run() -> None:
    run, slow, quick = raced()
    assert run.fetch(0, 0, 0, 1) == []
    for process in (100, 101, 102):
        run.claim(*key(quick), Holder("cpu", process), 1.0)
        run.process_died(Holder("cpu", process), Death(-signal.SIGSEGV))
    assert not batch_of(run).state.in_flight
    assert run.doom is not None
    assert "3 times" in run.doom
    with pytest.raises(Refused):
        run.commit(*key(slow), made("csd"), 2.0)


def test_a_second_lease_that_runs_out_is_taken_back_alone() -> None:
    run, slow, quick = raced()
    deadline = claim(run, quick, 1.0)
    run.expire(deadline)
    assert batch_of(run).tokens == (slow.token,)
    assert batch_of(run).losses == 0


def test_both_leases_may_run_out_at_once() -> None:
    run, _, quick = raced()
    claim(run, quick, 1.0)
    run.expire(10_000.0)
    assert batch_of(run).state is BatchState.LOST
    assert run.epochs[0].frontier.returned == {0}
    assert all(run.epochs[0].in_flight(prong) == 0 for prong in Prong)


def test_a_second_lease_is_held_by_one_process_like_any_other() -> None:
    run, _, quick = raced()
    claim(run, quick, 1.0, process=11)
    claim(run, quick, 1.0, process=11)
    with pytest.raises(Held) as refusal:
        claim(run, quick, 1.0, process=12)
    assert refusal.value.process == 11


def test_a_second_lease_of_a_dead_process_can_be_claimed_by_another() -> None:
    run, _, quick = raced()
    claim(run, quick, 1.0, process=11)
    run.process_died(Holder("cpu", 11))
    claim(run, quick, 1.0, process=12)
    assert run.commit(*key(quick), made("cpu"), 2.0)


def test_a_second_lease_is_refused_to_another_device_without_naming_a_process() -> None:
    run, _, quick = raced()
    claim(run, quick, 1.0, "cpu")
    with pytest.raises(Refused) as refusal:
        claim(run, quick, 1.0, "another")
    assert not isinstance(refusal.value, Held)


# Overdue


def overdue(taken_s: float, **limits: float) -> tuple[RunSchedule, Grant, list[Grant]]:
    """The batch that a rank waits for has taken so long, on one of two devices of one prong."""
    run = schedule("cpu", batches=40, epochs=1, devices=TWO_HOSTS, **limits)
    paced(run, a=1.0, b=1.0)
    first, *others = run.top_up(0.0)
    claim(run, first, 0.0, "a")
    for grant in others:
        claim(run, grant, 0.0, "b")
    run.fetch(0, 0, 0, 1)
    return run, first, [g for g in run.top_up(taken_s) if g.index == first.index]


@pytest.mark.parametrize(("taken_s", "raced"), [(2.0, False), (2.9, False), (3.5, True)])
def test_what_a_rank_waits_for_is_raced_when_it_takes_many_times_what_it_should(
    taken_s: float, raced: bool
) -> None:
    run, first, again = overdue(taken_s)
    assert bool(again) is raced
    assert (find(run, first).rival is not None) is raced


def test_what_is_quick_is_not_raced_before_a_while() -> None:
    assert overdue(3.5, overdue_floor_s=5.0)[2] == []
    assert len(overdue(5.5, overdue_floor_s=5.0)[2]) == 1


def test_what_no_rank_waits_for_yet_is_not_raced() -> None:
    run = paced(schedule("cpu", batches=40, epochs=1, devices=TWO_HOSTS), a=1.0, b=1.0)
    first, second, *_ = run.top_up(0.0)
    claim(run, first, 0.0, "a")
    claim(run, second, 0.0, "b")
    run.commit(*key(first), made("a"), 0.5)
    run.top_up(9.0)
    assert find(run, second).rival is None
    run.fetch(0, 0, 0, 1)
    run.top_up(9.0)
    assert find(run, second).rival is not None


def test_a_single_worker_does_not_race_itself() -> None:
    run = paced(schedule("cpu", batches=40, epochs=1, devices={"a": (Prong.CPU, 1)}), a=1.0)
    first = run.top_up(0.0)[0]
    claim(run, first, 0.0, "a")
    run.top_up(50.0)
    assert find(run, first).rival is None


def test_claiming_again_does_not_hide_that_a_batch_is_overdue() -> None:
    run = paced(schedule("cpu", batches=40, epochs=1, devices=TWO_HOSTS), a=1.0, b=1.0)
    first = run.top_up(0.0)[0]
    claim(run, first, 0.0, "a")
    claim(run, first, 0.1, "a")
    run.top_up(9.0)
    assert find(run, first).rival is not None
