"""Whose work a rank waits for that got nothing: the side that makes its next batch, or nobody."""

import pytest

from ddlp.core.schedule import Failed, Grant, RunSchedule, blamed
from ddlp.core.types import Prong
from tests.core.schedule.making import BOTH, claim, finish, key, made, paced, schedule, take

CPU, CSD = {Prong.CPU: 1.0}, {Prong.CSD: 1.0}


def begin(run: RunSchedule, now: float = 0.0) -> list[Grant]:
    """Have devices start on all that is given out."""
    grants = run.top_up(now)
    for grant in grants:
        claim(run, grant, now)
    return grants


def split_run() -> RunSchedule:
    """A run of `mte` whose first half is the CPU's share, and whose second is the CSD's."""
    return paced(schedule("mte", batches=8, epochs=1), cpu=1.0, csd=1.0)


def test_who_waits_in_the_share_of_the_cpu_waits_for_the_cpu() -> None:
    run = split_run()
    begin(run)
    assert run.fetch(0, 0, 0, 1) == []
    assert blamed(run, 0) == CPU


def test_who_waits_in_the_share_of_the_csd_waits_for_the_csd() -> None:
    run = split_run()
    held: list[Grant] = []
    taken = 0
    for _ in range(20):
        for grant in run.top_up(0.0):
            if grant.prong is Prong.CPU and grant.index < 4:
                finish(run, grant)
            else:
                held.append(grant)
                claim(run, grant)
        taken += len(run.fetch(0, 0, taken, 1))
        run.consume(0, 0, taken)
    assert taken == 4
    assert run.epochs[0].settled["split"] == 4
    assert Prong.CSD in {grant.prong for grant in held}
    assert blamed(run, 0) == CSD


def test_wrr_waits_for_both_by_what_they_make() -> None:
    run = paced(schedule("wrr", batches=20), cpu=1.0, csd=3.0)
    begin(run)
    assert blamed(run, 0) == pytest.approx({Prong.CPU: 0.75, Prong.CSD: 0.25})


def test_wrr_waits_for_both_alike_while_nothing_is_known_of_them() -> None:
    run = schedule("wrr", batches=20)
    begin(run)
    assert blamed(run, 0) == {Prong.CPU: 0.5, Prong.CSD: 0.5}


def test_wrr_waits_for_the_one_that_is_at_work() -> None:
    run = paced(schedule("wrr", batches=20), cpu=1.0, csd=3.0)
    for grant in run.top_up(0.0):
        if grant.prong is Prong.CSD:
            claim(run, grant)
    assert blamed(run, 0) == CSD


@pytest.mark.parametrize("again", Prong)
def test_a_step_that_is_made_again_is_waited_for_whatever_the_other_side_does(again: Prong) -> None:
    run = schedule("wrr", batches=20)
    take(run, 1)
    [batch] = run.fetch(0, 0, 1, 1)
    run.damaged(0, batch.index, batch.token, Failed("a bit flipped"), 0.0)
    run.set_devices({again.value: (again, 1)})
    begin(run)
    run.set_devices(BOTH)
    begin(run)
    assert {b.prong for b in run.epochs[0].under_way.in_flight()} == set(Prong)
    assert blamed(run, 0) == {again: 1.0}


@pytest.mark.parametrize("name", ["mte", "wrr", "cpu", "csd", "bounded"])
def test_where_nobody_is_at_work_nobody_is_blamed(name: str) -> None:
    run = schedule(name)
    assert blamed(run, 0) == {}, "the epoch is not open"
    run.top_up(0.0)
    assert blamed(run, 0) == {}, "nobody has picked anything up"


@pytest.mark.parametrize(("name", "found"), [("cpu", CPU), ("csd", CSD)])
def test_a_baseline_waits_for_its_only_side(name: str, found: dict[Prong, float]) -> None:
    run = schedule(name)
    begin(run)
    assert blamed(run, 0) == found


def test_an_epoch_that_is_not_open_is_nobodys_work() -> None:
    run = schedule("cpu", world_size=2)
    begin(run)
    assert blamed(run, 1) == {}


def test_a_run_without_a_device_blames_nobody() -> None:
    run = schedule("wrr")
    begin(run)
    assert blamed(run, 0)
    run.set_devices({})
    assert blamed(run, 0) == {}


def test_a_prong_that_rests_because_its_store_is_full_blames_nobody() -> None:
    run = schedule("cpu")
    first, *_ = begin(run)
    run.no_room(*key(first), "the store is full", 0.0)
    assert run.held_up is not None
    assert blamed(run, 0) == {}


def test_who_is_far_ahead_of_other_ranks_waits_for_them_and_for_no_device() -> None:
    run = schedule("cpu", world_size=2, batches=40, stored={Prong.CPU: 4, Prong.CSD: 4})
    for _ in range(10):
        for grant in run.top_up(0.0):
            claim(run, grant)
            run.commit(*key(grant), made("cpu"), 0.0)
        run.fetch(0, 0, 0, 4)
    assert run.is_ahead(run.epochs[0])
    assert blamed(run, 0) == {}
