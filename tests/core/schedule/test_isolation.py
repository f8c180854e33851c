"""Batches that crash their workers, and workers that are killed beside them."""

import signal

import pytest

from ddlp.core.errors import Refused
from ddlp.core.schedule import (
    UNKNOWN,
    Batch,
    Death,
    Failed,
    Grant,
    Holder,
    RunSchedule,
    explain_wait,
)
from ddlp.core.types import BadPolicy, BatchState, Prong
from tests.core.schedule.making import claim, find, finish, key, made, schedule, take

CRASHED = Death(-signal.SIGSEGV)
CRASHES = "a worker process of cpu crashed (SIGSEGV) while making it"
TWO_HOSTS = {"a": (Prong.CPU, 1), "b": (Prong.CPU, 1)}


def again(run: RunSchedule, index: int, now: float = 0.0) -> Grant:
    """The next lease of a batch that was lost."""
    return next(grant for grant in run.top_up(now) if grant.index == index)


def kill_workers(run: RunSchedule, index: int, times: int) -> Batch:
    """Have a batch kill the processes that make it."""
    for number in range(times):
        batch = run.find(0, index)
        if batch is None or not batch.state.in_flight:
            again(run, index)
            batch = run.find(0, index)
        assert batch is not None
        holder = Holder("cpu", 100 + number)
        run.claim(0, index, batch.token, holder, 0.0)
        run.process_died(holder, CRASHED)
    return batch


def test_a_batch_that_kills_three_workers_ends_a_run_that_takes_no_bad_samples() -> None:
    run = schedule("cpu", on_bad=BadPolicy.FAIL)
    kill_workers(run, 0, 2)
    assert run.doom is None
    kill_workers(run, 0, 1)
    why = f"batch 0 of epoch 0 was isolated: {CRASHES}, 3 times"
    assert run.doom == why
    assert 0 not in {grant.index for grant in run.top_up(1.0)}, "nobody is given it any more"


@pytest.mark.parametrize("policy", [BadPolicy.SKIP, BadPolicy.REPLACE])
def test_a_batch_that_kills_three_workers_is_left_out_and_holds_its_place(
    policy: BadPolicy,
) -> None:
    run = schedule("cpu", batch_size=4, on_bad=policy)
    batch = kill_workers(run, 0, 3)
    assert run.doom is None
    assert (batch.state, batch.isolated, batch.samples) == (BatchState.READY, True, 0)
    assert run.epochs[0].isolated == 1
    named = run.changes().mishaps[0, 0]
    assert [m.sample for m in named] == sorted(run.plan.batch_samples(0, 0).tolist())
    assert all("was isolated" in m.reason and m.substitute is None for m in named)
    for waiting in run.epochs[0].under_way.in_flight():
        run.commit(0, waiting.index, waiting.token, made("cpu"), 1.0)
    assert [b.index for b in take(run, 10)] == list(range(10))


def test_a_worker_that_comes_back_late_cannot_commit_an_isolated_batch() -> None:
    run = schedule("cpu", on_bad=BadPolicy.SKIP)
    lease = run.top_up(0.0)[0]
    kill_workers(run, lease.index, 3)
    with pytest.raises(Refused):
        run.commit(*key(lease), made("cpu"), 1.0)


def test_a_batch_that_is_isolated_when_it_is_made_again_stays_with_its_rank() -> None:
    run = schedule("cpu", on_bad=BadPolicy.SKIP)
    finish(run, run.top_up(0.0)[0])
    [handed] = run.fetch(0, 0, 0, 1)
    run.damaged(0, handed.index, handed.token, Failed("a bit flipped"), 0.0)
    kill_workers(run, handed.index, 3)
    [left_out] = run.fetch(0, 0, 0, 1)
    assert (left_out.position, left_out.isolated) == (0, True)


def test_more_isolated_batches_than_the_share_allows_end_the_run() -> None:
    run = schedule("cpu", batches=10, on_bad=BadPolicy.SKIP, bad_share=0.1)
    kill_workers(run, 0, 3)
    assert run.doom is None
    kill_workers(run, 1, 3)
    why = run.expected_failure
    assert why is not None
    assert why.endswith("2 such batches are too many for max_bad_share")
    assert run.doom is None, "the batch before it is yet to be delivered"
    take(run, 1)
    assert run.doom == why


def test_going_back_makes_an_isolated_batch_again() -> None:
    run = schedule("cpu", on_bad=BadPolicy.SKIP)
    kill_workers(run, 0, 3)
    [batch] = run.fetch(0, 0, 0, 1)
    run.go_back(0, 0, 0, run.consume(0, 0, 1))
    assert run.epochs[0].isolated == 0
    lease = again(run, batch.index)
    assert finish(run, lease).samples == 1
    assert not find(run, lease).isolated
    assert run.changes().mishaps == {(0, 0): ()}


@pytest.mark.parametrize(
    ("death", "words"),
    [
        (Death(-signal.SIGKILL), "SIGKILL from outside"),
        (Death(-signal.SIGTERM), "SIGTERM from outside"),
        (Death(-signal.SIGALRM), "SIGALRM from outside"),
        (Death(-62), "signal 62 from outside"),
        (Death(-signal.SIGKILL, True), "SIGKILL, as the kernel ended processes for lack of memory"),
        (UNKNOWN, "nobody saw how"),
    ],
)
@pytest.mark.parametrize("policy", BadPolicy)
def test_however_often_workers_are_killed_at_a_batch_it_is_neither_isolated_nor_given_up(
    policy: BadPolicy, death: Death, words: str
) -> None:
    run = schedule("cpu", on_bad=policy)
    lease = run.top_up(0.0)[0]
    for process in range(50):
        claim(run, lease, process=process + 1)
        run.process_died(Holder("cpu", process + 1), death)
    batch = find(run, lease)
    assert (batch.isolated, batch.kills, batch.deaths) == (False, 0, 50)
    assert run.expected_failure is None
    assert batch.careful, "each sample is decoded in a process of its own from now on"
    run.fetch(0, 0, 0, 1)
    said = explain_wait(run, 0, 0.0)
    assert f"; a worker process of cpu died ({words}) while making it, 50 times so far" in said
    claim(run, lease, process=99)
    run.commit(*key(lease), made("cpu"), 1.0)
    assert [b.index for b in run.fetch(0, 0, 0, 1)] == [0]


@pytest.mark.parametrize(
    ("death", "words"),
    [
        (Death(-signal.SIGBUS), "SIGBUS"),
        (Death(-signal.SIGABRT), "SIGABRT"),
        (Death(1), "status 1"),
    ],
)
def test_what_a_process_does_to_itself_is_a_crash(death: Death, words: str) -> None:
    run = schedule("cpu", on_bad=BadPolicy.FAIL)
    lease = run.top_up(0.0)[0]
    for process in range(3):
        claim(run, lease, process=process + 1)
        run.process_died(Holder("cpu", process + 1), death)
    assert f"a worker process of cpu crashed ({words}) while" in (run.expected_failure or "")


def test_crashes_are_counted_between_kills() -> None:
    run = schedule("cpu", on_bad=BadPolicy.FAIL)
    lease = run.top_up(0.0)[0]
    for process, death in enumerate([Death(-signal.SIGKILL), CRASHED] * 3):
        assert run.expected_failure is None
        claim(run, lease, process=process + 1)
        run.process_died(Holder("cpu", process + 1), death)
    assert run.expected_failure == f"batch 0 of epoch 0 was isolated: {CRASHES}, 3 times"


def test_a_device_that_dies_again_and_again_ends_nothing() -> None:
    run = schedule("cpu", batches=1, epochs=1)
    for _ in range(20):
        for lease in run.top_up(0.0):
            claim(run, lease)
        run.device_gone("cpu", Prong.CPU)
    assert run.expected_failure is None
