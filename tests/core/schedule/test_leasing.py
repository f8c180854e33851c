"""What is given out: windows, sizes of messages, and who gets no more at an epoch's end."""

import pytest

from ddlp.core.schedule import Failed, Holder, RunSchedule, explain_wait
from ddlp.core.types import BatchState, Prong
from tests.core.schedule.making import (
    claim,
    find,
    finish,
    made,
    make_all,
    paced,
    schedule,
    take,
    work_off,
)

ONE_CPU = {"cpu": (Prong.CPU, 1)}
STORES = {Prong.CPU: 100, Prong.CSD: 100}


def test_cpu_takes_from_the_head_and_csd_from_the_tail() -> None:
    grants = schedule().top_up(0.0)
    assert [grant.index for grant in grants if grant.prong is Prong.CPU] == [0, 1]
    assert [grant.index for grant in grants if grant.prong is Prong.CSD] == [9, 8]


def test_a_lease_says_where_its_samples_lie() -> None:
    run = schedule("cpu", batch_size=4)
    assert [grant.places for grant in run.top_up(0.0)] == [((0, 4),), ((4, 8),)]


def test_nothing_is_leased_while_the_window_is_full() -> None:
    run = schedule()
    run.top_up(0.0)
    assert run.top_up(0.0) == []


def test_nothing_is_leased_to_a_prong_without_a_device() -> None:
    run = schedule(devices=ONE_CPU)
    assert {grant.prong for grant in run.top_up(0.0)} == {Prong.CPU}
    run.set_devices({})
    assert schedule(devices={}).top_up(0.0) == []


@pytest.mark.parametrize("slots", [1, 3])
def test_what_is_queued_grows_with_the_slots(slots: int) -> None:
    run = schedule("cpu", batches=50, devices={"cpu": (Prong.CPU, slots)}, queue_per_slot=4)
    assert len(run.top_up(0.0)) == 4 * slots


@pytest.mark.parametrize("name", ["mte", "wrr", "bounded", "cpu"])
def test_what_lies_in_a_store_is_bounded_and_goes_on_as_it_is_consumed(name: str) -> None:
    stored = {Prong.CPU: 3, Prong.CSD: 5}
    run = schedule(name, batches=60, epochs=1, stored=dict(stored))
    make_all(run)
    for done in range(60):
        for prong in run.strategy.prongs:
            # What ranks cannot do without is made whatever lies in the store.
            assert run.epochs[0].stored(prong) <= stored[prong] + 1
        take(run, 1, done=done)
    assert run.finished


def test_a_full_store_lets_through_what_a_rank_waits_for() -> None:
    run = schedule("mte", batches=20, epochs=1, devices={"csd": (Prong.CSD, 1)})
    run.limits.stored[Prong.CSD] = 2
    make_all(run)
    run.set_devices({"csd": (Prong.CSD, 1), "cpu": (Prong.CPU, 1)})
    assert sorted(batch.index for batch in take(run, 20)) == [*range(20)]


def test_a_lost_batch_that_holds_a_step_is_made_again_though_the_store_is_full() -> None:
    run = schedule("cpu", batches=20, stored={Prong.CPU: 2, Prong.CSD: 2})
    make_all(run)
    [batch] = run.fetch(0, 0, 0, 1)
    make_all(run)
    assert run.top_up(0.0) == []
    run.damaged(0, batch.index, batch.token, Failed("a bit flipped"), 0.0)
    assert [grant.index for grant in run.top_up(0.0)] == [batch.index]


# Messages


def test_a_message_carries_one_lease_while_nothing_is_known() -> None:
    assert schedule("cpu", batches=1000, stored=STORES).message_leases(Prong.CPU) == 1


@pytest.mark.parametrize(
    ("batch_s", "leases"), [(0.0001, 25), (0.01, 20), (0.05, 4), (0.19, 1), (5.0, 1)]
)
def test_a_message_carries_as_much_work_as_it_should(batch_s: float, leases: int) -> None:
    run = paced(schedule("cpu", batches=1000, stored=STORES, message_s=0.2), cpu=batch_s)
    run.fetch(0, 0, 0, 1)
    assert run.message_leases(Prong.CPU) == leases


def test_a_message_is_never_longer_than_it_may_be() -> None:
    stored = {Prong.CPU: 10_000, Prong.CSD: 1}
    run = paced(schedule("cpu", batches=1000, stored=stored, message_leases=7), cpu=0.0001)
    run.fetch(0, 0, 0, 1)
    assert run.message_leases(Prong.CPU) == 7


def test_messages_are_small_at_the_end_of_an_epoch() -> None:
    run = paced(schedule("cpu", batches=100, epochs=1, stored=STORES), cpu=0.0001)
    take(run, 90)
    assert run.message_leases(Prong.CPU) == 1


def test_as_many_leases_are_queued_as_the_messages_carry() -> None:
    limits = {"stored": STORES, "queue_per_slot": 2, "message_s": 0.2}
    run = paced(schedule("cpu", batches=1000, **limits), cpu=0.05)
    run.fetch(0, 0, 0, 1)
    assert len(run.top_up(0.0)) == 2 * 4


# The end of an epoch


def leased(run: RunSchedule, prong: Prong) -> int:
    return sum(grant.prong is prong for grant in run.top_up(0.0))


def test_a_slow_prong_gets_no_more_than_it_can_finish_before_the_others_finish_all() -> None:
    run = paced(schedule("mte", batches=6, epochs=1), cpu=1.0, csd=10.0)
    assert leased(run, Prong.CSD) == 0
    for batch in run.epochs[0].under_way.in_flight():
        run.claim(0, batch.index, batch.token, Holder("cpu", 1), 0.0)
        run.commit(0, batch.index, batch.token, made("cpu"), 1.0)
    assert sorted(batch.index for batch in take(run, 6)) == list(range(6))


def test_a_slow_prong_gets_work_while_there_is_enough() -> None:
    run = paced(schedule("wrr", batches=60, epochs=1), cpu=1.0, csd=10.0)
    assert leased(run, Prong.CSD) == 2


def test_a_slow_prong_that_is_alone_gets_all_there_is() -> None:
    run = paced(schedule("wrr", batches=6, epochs=1), cpu=1.0, csd=10.0)
    run.set_devices({"csd": (Prong.CSD, 1)})
    assert leased(run, Prong.CSD) == 2


def test_a_slow_prong_still_makes_what_a_rank_waits_for() -> None:
    run = paced(schedule("mte", batches=4, epochs=1), cpu=1.0, csd=10.0)
    [first, *_] = run.top_up(0.0)
    claim(run, first)
    run.set_devices({"csd": (Prong.CSD, 1)})
    run.device_gone("cpu", Prong.CPU)
    assert first.index in [grant.index for grant in run.top_up(0.0)]


# An epoch that was left


def test_what_a_device_was_at_when_its_epoch_was_left_does_not_make_it_slow() -> None:
    run = paced(schedule("cpu", batches=40, epochs=3), cpu=1.0)
    first = run.top_up(0.0)[0]
    claim(run, first, 0.0)
    run.fetch(0, 1, 0, 1)
    run.changes()
    run.top_up(500.0)
    assert run.fleet.batch_s(Prong.CPU) == pytest.approx(1.0)


def test_tokens_only_grow() -> None:
    run = schedule("wrr", batches=30, epochs=1)
    tokens: list[int] = []
    for done in range(30):
        grants = run.top_up(0.0)
        tokens += [grant.token for grant in grants]
        for grant in grants:
            if find(run, grant).state.in_flight:
                finish(run, grant)
        take(run, 1, done=done)
    assert tokens == sorted(set(tokens))


# What may lie in a store


def made_or_making(run: RunSchedule) -> int:
    """Batches of the first epoch that lie in a store, or will, and that nobody has used up."""
    return sum(batch.state is not BatchState.LOST for batch in run.epochs[0].under_way)


def test_going_back_makes_no_more_than_the_store_may_hold() -> None:
    run = schedule("cpu", batches=60, epochs=1, stored={Prong.CPU: 6, Prong.CSD: 1})
    taken = take(run, 50)
    run.go_back(0, 0, 0, taken)
    for _ in range(100):
        work_off(run)
    assert made_or_making(run) <= 6 + 2
    assert [batch.index for batch in take(run, 60)] == list(range(60))


def test_a_rank_that_stops_asking_is_waited_for() -> None:
    stored = {Prong.CPU: 6, Prong.CSD: 1}
    run = schedule("cpu", batches=60, epochs=1, world_size=2, stored=stored)
    received = 0
    for _ in range(100):
        work_off(run)
        received += len(run.fetch(0, 0, received, 4))
        run.consume(0, 0, received)
    assert received < 30
    assert made_or_making(run) <= 6 + 2
    assert explain_wait(run, 0, 0.0).startswith("rank 1, which has consumed 0 of its batches")
