"""How each strategy splits the work, and in which order the loader takes it."""

import pytest

from ddlp.core.errors import InvalidInput
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import Limits, RunSchedule, strategy
from ddlp.core.types import BatchState, Prong
from tests.core.schedule.simulation import made

SECONDS = {Prong.CPU: 1.0, Prong.CSD: 3.0}


def deliver(name: str, batches: int, **limits: int) -> tuple[list[int], RunSchedule, int | None]:
    """One epoch in which a CSD is three times as slow as the CPU; the order of delivery."""
    run = RunSchedule(RunPlan(batches, 1, 1, 0), strategy(name), Limits(**limits))  # type: ignore[arg-type]
    run.set_slots({Prong.CPU: 1, Prong.CSD: 1})
    order: list[int] = []
    split: int | None = None
    free_at = dict.fromkeys(Prong, 0.0)
    now = 0.0
    while len(order) < batches:
        run.top_up(now)
        for prong in Prong:
            mine = [b for b in run.epochs[0].under_way if b.prong is prong]
            queued = sorted((b for b in mine if b.state.in_flight), key=lambda b: b.token)
            if queued and free_at[prong] <= now:
                lease = queued[0]
                run.claim(0, lease.index, lease.token, prong.value, now)
                run.commit(0, lease.index, lease.token, made(lease.index, SECONDS[prong]), now)
                free_at[prong] = now + SECONDS[prong]
        order += [batch.index for batch in run.fetch(0, 0, len(order), 8)]
        split = run.epochs[0].split
        run.consume(0, 0, len(order), now)
        now += 1.0
    return order, run, split


def test_cpu_only_is_ascending_and_csd_only_descending() -> None:
    assert deliver("cpu", 12)[0] == list(range(12))
    assert deliver("csd", 12)[0] == list(range(11, -1, -1))


def test_mte_splits_by_the_calibrated_rates() -> None:
    order, _, split = deliver("mte", 80)
    assert split == 60
    assert order == [*range(60), *range(79, 59, -1)]


def test_mte_order_is_a_function_of_the_split_alone() -> None:
    order, _, split = deliver("mte", 21, calibration_batches=2)
    assert split is not None
    assert order == [*range(split), *range(20, split - 1, -1)]


@pytest.mark.parametrize("batches", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["mte", "wrr"])
def test_tiny_epochs_are_delivered_whole(name: str, batches: int) -> None:
    assert sorted(deliver(name, batches)[0]) == list(range(batches))


def test_under_wrr_the_ends_meet_where_the_rates_say() -> None:
    order, run, _ = deliver("wrr", 80)
    assert sorted(order) == list(range(80))
    assert run.epochs[0].meeting_point == pytest.approx(60, abs=3)


def test_wrr_takes_from_both_sides_in_proportion_all_along() -> None:
    order, _, _ = deliver("wrr", 80)
    from_tail = sum(index >= 60 for index in order[:40])
    assert from_tail == pytest.approx(10, abs=3)


def test_wrr_never_waits_for_one_side_while_the_other_is_ready() -> None:
    run = RunSchedule(RunPlan(10, 1, 1, 0), strategy("wrr"))
    run.set_slots({Prong.CPU: 1, Prong.CSD: 1})
    csd = next(lease for lease in run.top_up(0.0) if lease.prong is Prong.CSD)
    run.claim(0, csd.index, csd.token, "csd", 0.0)
    run.commit(0, csd.index, csd.token, made(csd.index), 0.0)
    assert run.fetch(0, 0, 0, 1) == [csd]
    assert csd.state is BatchState.HANDED


def test_an_unknown_strategy_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"no strategy 'fast'; choose one of mte, wrr, cpu, csd"):
        strategy("fast")
