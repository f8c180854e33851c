"""Windows that change while a run works: nothing is lost, and nothing is left unused."""

import pytest

from ddlp.core.schedule import RunSchedule
from ddlp.core.types import Prong
from tests.core.schedule.making import finish, make_all, schedule, take, work_off


def run_of(cpu: int, csd: int = 5, name: str = "cpu", **fields: int) -> RunSchedule:
    stored = {Prong.CPU: cpu, Prong.CSD: csd}
    return schedule(name, batches=60, epochs=1, stored=stored, **fields)


def stored(run: RunSchedule, prong: Prong = Prong.CPU) -> int:
    return run.epochs[0].stored(prong)


def test_a_window_that_grows_is_filled_at_the_next_top_up() -> None:
    run = run_of(3)
    make_all(run)
    assert stored(run) == 3
    assert run.top_up(0.0) == []
    run.set_stored({Prong.CPU: 9, Prong.CSD: 5})
    make_all(run)
    assert stored(run) == 9


def test_a_window_that_shrinks_lets_what_is_under_way_finish() -> None:
    run = run_of(8, queue_per_slot=4)
    grants = run.top_up(0.0)
    assert len(grants) == 4
    run.set_stored({Prong.CPU: 1, Prong.CSD: 5})
    for grant in grants:
        finish(run, grant)
    assert stored(run) == 4
    assert work_off(run) == 0, "nothing more is given out while so much lies there"
    assert [batch.index for batch in take(run, 3)] == [0, 1, 2]
    assert stored(run) == 1


@pytest.mark.parametrize("name", ["mte", "wrr", "bounded", "cpu", "csd"])
def test_shrinking_below_what_is_stored_loses_nothing_and_never_stands_still(name: str) -> None:
    run = run_of(20, 20, name)
    make_all(run)
    taken = take(run, 5)
    run.set_stored({Prong.CPU: 1, Prong.CSD: 1})
    for done in range(5, 60):
        taken += take(run, 1, done=done)
    assert sorted(batch.index for batch in taken) == list(range(60))
    assert run.finished


def test_a_smaller_window_is_kept_to_once_it_has_emptied() -> None:
    run = run_of(20)
    make_all(run)
    run.set_stored({Prong.CPU: 2, Prong.CSD: 5})
    take(run, 18)
    for done in range(18, 60):
        assert stored(run) <= 2 + 1
        take(run, 1, done=done)


def test_a_store_that_was_found_full_is_not_trusted_at_once_because_it_may_hold_more() -> None:
    run = run_of(8)
    make_all(run)
    run.rest(Prong.CPU, 4, "the drive is full", 0.0)
    run.set_stored({Prong.CPU: 30, Prong.CSD: 5})
    assert run.room[Prong.CPU] == 4
    run.found_room(Prong.CPU)
    assert run.room[Prong.CPU] == 5


def test_the_windows_of_one_run_are_not_those_of_another() -> None:
    first, second = run_of(8), run_of(8)
    first.set_stored({Prong.CPU: 2, Prong.CSD: 2})
    assert second.limits.stored == {Prong.CPU: 8, Prong.CSD: 5}
    assert second.limits.failures == first.limits.failures
