"""Leases, fencing, deadlines and acknowledgements of one run."""

import pytest

from ddlp.core.errors import Conflict, InvalidInput, Refused
from ddlp.core.plan import RunPlan
from ddlp.core.ranges import Ranges
from ddlp.core.schedule import (
    Batch,
    EpochSchedule,
    Limits,
    RunSchedule,
    explain_wait,
    strategy,
)
from ddlp.core.types import BatchState, Prong
from tests.core.schedule.simulation import made

BOTH = {Prong.CPU: 1, Prong.CSD: 1}


def schedule(name: str = "wrr", batches: int = 10, **limits: float) -> RunSchedule:
    run = RunSchedule(RunPlan(batches, 1, 2, 0), strategy(name), Limits(**limits))  # type: ignore[arg-type]
    run.set_slots(BOTH)
    return run


def finish(run: RunSchedule, batch: Batch, now: float = 0.0, seconds: float = 1.0) -> None:
    run.claim(batch.epoch, batch.index, batch.token, batch.prong.value, now)
    run.commit(batch.epoch, batch.index, batch.token, made(batch.index, seconds), now)


def test_cpu_takes_from_the_head_and_csd_from_the_tail() -> None:
    leases = schedule().top_up(0.0)
    assert [b.index for b in leases if b.prong is Prong.CPU] == [0, 1]
    assert [b.index for b in leases if b.prong is Prong.CSD] == [9, 8]


def test_a_second_top_up_leases_nothing_while_the_window_is_full() -> None:
    run = schedule()
    run.top_up(0.0)
    assert run.top_up(0.0) == []


def test_the_next_epoch_is_begun_while_the_last_one_is_delivered_but_not_two() -> None:
    run = schedule(batches=2)
    for _ in range(20):
        for batch in run.top_up(0.0):
            finish(run, batch)
    assert sorted(run.epochs) == [0, 1]


def test_a_stale_token_is_refused_at_claim_and_at_commit() -> None:
    run = schedule(queued_s=1.0, unknown_s=1.0)
    old = run.top_up(0.0)[0]
    token = old.token
    run.expire(10.0)
    assert any(b.index == old.index and b.token != token for b in run.top_up(10.0))
    with pytest.raises(Refused):
        run.claim(0, old.index, token, "late", 10.0)
    with pytest.raises(Refused):
        run.commit(0, old.index, token, made(0), 10.0)


def test_the_same_device_may_claim_again_and_another_may_not() -> None:
    run = schedule()
    lease = run.top_up(0.0)[0]
    run.claim(0, lease.index, lease.token, "a", 0.0)
    run.claim(0, lease.index, lease.token, "a", 1.0)
    with pytest.raises(Refused, match="being made by a"):
        run.claim(0, lease.index, lease.token, "b", 1.0)


def test_committing_twice_is_harmless() -> None:
    run = schedule()
    lease = run.top_up(0.0)[0]
    finish(run, lease)
    run.commit(0, lease.index, lease.token, made(lease.index), 1.0)
    assert run.epochs[0].made_by[lease.prong] == 1


def test_a_lease_lasts_ten_times_what_its_prong_needs() -> None:
    run = schedule("cpu")
    first, second = run.top_up(0.0)[:2]
    finish(run, first, seconds=5.0)
    run.claim(0, second.index, second.token, "cpu", 100.0)
    assert run.expire(149.0) == []
    assert run.expire(150.0) == [second]


def test_a_dead_device_gives_back_what_it_held_at_once() -> None:
    run = schedule()
    leases = run.top_up(0.0)
    for lease in leases:
        run.claim(0, lease.index, lease.token, lease.prong.value, 0.0)
    assert {b.index for b in run.device_gone("csd", Prong.CSD)} == {9, 8}
    assert run.epochs[0].frontier.returned == {9, 8}


def test_the_living_prong_takes_over_what_the_dead_one_held() -> None:
    run = schedule("mte", batches=6)
    for lease in run.top_up(0.0):
        run.claim(0, lease.index, lease.token, lease.prong.value, 0.0)
    run.device_gone("csd", Prong.CSD)
    run.set_slots({Prong.CPU: 1})
    delivered: list[int] = []
    for _ in range(40):
        run.top_up(0.0)
        for batch in list(run.epochs[0].under_way) if 0 in run.epochs else []:
            if batch.state.in_flight:
                finish(run, batch)
        for batch in run.fetch(0, 0, len(delivered), 1):
            delivered.append(batch.index)
        run.consume(0, 0, len(delivered), 0.0)
    assert sorted(delivered) == list(range(6))


def test_three_failures_poison_a_batch_and_say_why() -> None:
    run = schedule("cpu", batches=1)
    for _ in range(3):
        lease = run.top_up(0.0)[0]
        run.claim(0, 0, lease.token, "cpu", 0.0)
        run.fail(0, 0, lease.token, "the decoder crashed")
    assert run.doom == "batch 0 of epoch 0: the decoder crashed"


def test_a_permanent_failure_poisons_at_once() -> None:
    run = schedule("cpu")
    lease = run.top_up(0.0)[0]
    run.claim(0, lease.index, lease.token, "cpu", 0.0)
    run.fail(0, lease.index, lease.token, "not an image", permanent=True)
    assert run.doom == "batch 0 of epoch 0: not an image"


def test_messages_that_are_never_picked_up_do_not_count_as_failures() -> None:
    run = schedule("cpu", queued_s=0.0, unknown_s=1.0)
    for turn in range(10):
        run.top_up(turn * 100.0)
        run.expire(turn * 100.0 + 50)
    assert run.doom is None


def test_asking_again_gives_the_same_batches_again() -> None:
    run = schedule("cpu")
    for lease in run.top_up(0.0):
        finish(run, lease)
    first = run.fetch(0, 0, 0, 2)
    assert run.fetch(0, 0, 0, 2) == first
    assert run.fetch(0, 0, 1, 1) == first[1:]


def test_a_damaged_batch_is_made_again_for_the_same_step() -> None:
    run = schedule("cpu")
    for lease in run.top_up(0.0):
        finish(run, lease)
    first, second = run.fetch(0, 0, 0, 2)
    run.damaged(0, first.index, first.token, "a bit flipped")
    assert run.fetch(0, 0, 0, 2) == []
    again = next(b for b in run.top_up(1.0) if b.index == first.index)
    finish(run, again)
    assert run.fetch(0, 0, 0, 2) == [again, second]
    assert again.step == 0


def test_claiming_to_have_received_more_than_was_given_is_refused() -> None:
    run = schedule("cpu")
    run.top_up(0.0)
    with pytest.raises(Conflict, match="received 7"):
        run.fetch(0, 0, 7, 1)


def test_a_rank_outside_the_world_is_refused() -> None:
    with pytest.raises(InvalidInput, match="rank 1"):
        schedule().fetch(1, 0, 0, 1)


def test_skipping_ahead_abandons_the_epoch_that_was_left() -> None:
    run = schedule("cpu", batches=4)
    for lease in run.top_up(0.0):
        finish(run, lease)
    run.fetch(0, 0, 0, 1)
    run.fetch(0, 1, 0, 1)
    closed = {epoch.number: epoch.state.value for epoch in run.changes().epochs}
    assert closed[0] == "abandoned"
    assert all(lease.epoch == 1 for lease in run.top_up(0.0))


def test_going_back_delivers_the_same_batches_for_the_same_steps() -> None:
    run = schedule("wrr", batches=6)
    order: list[int] = []
    consumed: list[Batch] = []
    while len(order) < 4:
        for lease in run.top_up(0.0):
            finish(run, lease)
        batch = run.fetch(0, 0, len(order), 1)[0]
        order.append(batch.index)
        consumed += run.consume(0, 0, len(order), 0.0)
    run.rewind(0, 0, consumed[2:])
    for lease in run.top_up(1.0):
        finish(run, lease)
    assert [b.index for b in run.fetch(0, 0, 2, 2)] == order[2:]


def test_an_epoch_resumed_from_ranges_delivers_just_the_rest() -> None:
    run = schedule("wrr", batches=10)
    done = Ranges([(0, 3), (4, 5), (8, 10)])
    run.resume(EpochSchedule.resumed(0, 10, done))
    delivered: list[int] = []
    while len(delivered) < 4:
        for lease in run.top_up(0.0):
            if lease.epoch == 0:
                finish(run, lease)
        delivered += [b.index for b in run.fetch(0, 0, 6 + len(delivered), 4)]
    assert sorted(delivered) == [3, 5, 6, 7]


def test_what_is_waited_for_is_said_in_words() -> None:
    run = schedule("cpu")
    run.top_up(0.0)
    assert "batch 0 of epoch 0, held by queue cpu" in explain_wait(run, 0, 0, 2.0)
    run.set_slots({})
    assert "start one with: ddlp worker --prong cpu" in explain_wait(run, 0, 0, 2.0)


def test_only_what_changed_has_to_be_remembered() -> None:
    run = schedule()
    leases = run.top_up(0.0)
    assert len(run.changes().batches) == len(leases)
    assert run.changes().batches == []
    run.claim(0, leases[0].index, leases[0].token, "a", 0.0)
    assert [b.state for b in run.changes().batches] == [BatchState.LEASED]


def test_a_batch_slower_than_expected_is_made_at_last() -> None:
    run = schedule("cpu", batches=1)
    now = 0.0
    for _ in range(5):
        lease = run.top_up(now)[0]
        run.claim(0, 0, lease.token, "cpu", now)
        token, now = lease.token, now + 150.0
        if not any(lost.epoch == 0 for lost in run.expire(now)):
            break
        with pytest.raises(Refused):
            run.commit(0, 0, token, made(0, 150.0), now)
    run.commit(0, 0, token, made(0, 150.0), now)
    assert run.doom is None


def test_a_batch_that_is_gone_again_and_again_does_not_end_the_run() -> None:
    run = schedule("cpu")
    for _ in range(6):
        for lease in run.top_up(0.0):
            if lease.epoch == 0:
                finish(run, lease)
        [batch] = run.fetch(0, 0, 0, 1)
        run.damaged(0, batch.index, batch.token, "gone", gone=True)
    assert run.doom is None


def test_a_batch_that_is_damaged_again_and_again_does() -> None:
    run = schedule("cpu")
    for _ in range(3):
        for lease in run.top_up(0.0):
            if lease.epoch == 0:
                finish(run, lease)
        [batch] = run.fetch(0, 0, 0, 1)
        run.damaged(0, batch.index, batch.token, "a bit flipped")
    assert run.doom is not None


def test_a_full_store_makes_the_window_smaller() -> None:
    run = schedule("cpu", batches=20)
    leases = run.top_up(0.0)
    finish(run, leases[0])
    run.claim(0, leases[1].index, leases[1].token, "cpu", 0.0)
    run.no_room(0, leases[1].index, leases[1].token, "the disk is full")
    assert run.limits.stored[Prong.CPU] == 1
    assert run.doom is None


def test_what_an_attempt_left_can_go_when_it_counts_no_more() -> None:
    run = schedule("cpu")
    lease = run.top_up(0.0)[0]
    run.claim(0, lease.index, lease.token, "cpu", 0.0)
    token = lease.token
    run.device_gone("cpu", Prong.CPU)
    [void] = run.changes().void
    assert (void.device, void.index, void.token) == ("cpu", lease.index, token)
