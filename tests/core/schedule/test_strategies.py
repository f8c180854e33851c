"""How each strategy splits the work, and in which order the loader takes it."""

import math
from dataclasses import dataclass

import pytest

from ddlp.core.deals import Deals
from ddlp.core.errors import InvalidInput
from ddlp.core.schedule import CHOICES, STRATEGIES, EpochSchedule, Holder, Replay, strategy
from ddlp.core.schedule.strategies import Strategy
from ddlp.core.types import BatchState, End, Prong
from tests.core.schedule.making import finish, made, paced, schedule

SECONDS = {Prong.CPU: 1.0, Prong.CSD: 3.0}
STORES = {Prong.CPU: 16, Prong.CSD: 64}


@dataclass
class Delivered:
    """One epoch: the batches in the order of delivery, and what was dealt."""

    order: list[int]
    deals: Deals
    epoch: EpochSchedule


def deliver(
    name: str | Strategy,
    batches: int,
    seconds: dict[Prong, float] = SECONDS,
    known: bool = False,
    **limits: int,
) -> Delivered:
    """One epoch in which a drive is three times as slow as the CPU, by a clock that is moved."""
    run = schedule(name, batches, epochs=1, stored=dict(STORES), **limits)
    if known:
        paced(run, cpu=seconds[Prong.CPU], csd=seconds[Prong.CSD])
    epoch: EpochSchedule | None = None
    order: list[int] = []
    ends: list[End] = []
    free_at = dict.fromkeys(Prong, 0.0)
    now = 0.0
    while len(order) < batches:
        run.top_up(now)
        for prong in Prong:
            mine = [b for e in run.epochs.values() for b in e.under_way.in_flight()]
            queued = [b.token for b in mine if b.prong is prong]
            if queued and free_at[prong] <= now:
                batch = next(b for b in mine if b.token == min(queued))
                which = 0, batch.index, batch.token
                run.claim(*which, Holder(prong.value, 1), now)
                run.commit(*which, made(prong.value, seconds[prong]), now)
                free_at[prong] = now + seconds[prong]
        got = run.fetch(0, 0, len(order), 8)
        epoch = epoch or run.epochs.get(0)
        order += [batch.index for batch in got]
        ends += [End.TAIL if batch.from_tail else End.HEAD for batch in got]
        run.consume(0, 0, len(order))
        now += 1.0
    assert epoch is not None
    return Delivered(order, Deals.of(ends), epoch)


def test_cpu_only_is_ascending_and_csd_only_descending() -> None:
    assert deliver("cpu", 12).order == list(range(12))
    assert deliver("csd", 12).order == list(range(11, -1, -1))


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("batches", [1, 2, 3, 5, 40])
def test_every_batch_of_an_epoch_is_delivered_once_from_the_ends(name: str, batches: int) -> None:
    delivered = deliver(name, batches)
    assert sorted(delivered.order) == list(range(batches))
    assert delivered.deals.indices(0, batches) == delivered.order


# mte


def test_mte_splits_by_the_calibrated_rates() -> None:
    delivered = deliver("mte", 80)
    assert delivered.epoch.settled == {"split": 60}
    assert delivered.order == [*range(60), *range(79, 59, -1)]


def test_mte_splits_by_what_an_earlier_run_learned() -> None:
    delivered = deliver("mte", 40, known=True)
    assert delivered.epoch.settled == {"split": 30}
    assert str(delivered.deals.text) == "30h10t"


def test_mte_order_is_a_function_of_the_split_alone() -> None:
    delivered = deliver("mte", 21, calibration_batches=2)
    split = int(delivered.epoch.settled["split"])
    assert delivered.order == [*range(split), *range(20, split - 1, -1)]


def test_mte_does_not_wait_for_calibration_longer_than_a_quarter_of_an_epoch() -> None:
    delivered = deliver("mte", 16, calibration_batches=1000)
    assert delivered.epoch.settled["split"] == pytest.approx(12, abs=1)


def test_the_split_of_mte_lies_between_what_both_sides_have_begun() -> None:
    run = schedule("mte", batches=10, epochs=1)
    grants = run.top_up(0.0)
    assert run.epochs[0].settled == {}
    paced(run, cpu=1.0, csd=1000.0)
    finish(run, grants[0])
    run.top_up(0.0)
    assert run.epochs[0].settled == {"split": 8}


def test_mte_with_one_prong_alone_is_made_in_the_order_of_delivery() -> None:
    run = schedule("mte", batches=6, epochs=1, devices={"csd": (Prong.CSD, 3)})
    assert [grant.index for grant in run.top_up(0.0)] == list(range(6))


# wrr


def test_under_wrr_the_ends_meet_where_the_rates_say() -> None:
    delivered = deliver("wrr", 80)
    assert delivered.epoch.meeting_point == pytest.approx(60, abs=3)


def test_wrr_takes_from_both_sides_in_proportion_all_along() -> None:
    order = deliver("wrr", 80).order
    assert sum(index >= 60 for index in order[:40]) == pytest.approx(10, abs=3)


@pytest.mark.parametrize("prong", Prong)
def test_wrr_never_waits_for_one_side_while_the_other_is_ready(prong: Prong) -> None:
    run = schedule("wrr")
    lease = next(grant for grant in run.top_up(0.0) if grant.prong is prong)
    batch = finish(run, lease)
    assert run.fetch(0, 0, 0, 1) == [batch]
    assert batch.state is BatchState.HANDED


# bounded


def ready(run_batches: int, window: float, csd: bool, cpu: bool) -> list[int]:
    """What `bounded` deals at most when one side has made nothing yet; the tail's share is half."""
    run = schedule(strategy("bounded", window), run_batches, epochs=1, stored=dict(STORES))
    paced(run, cpu=1.0, csd=1.0)
    done = True
    while done:
        done = False
        for grant in run.top_up(0.0):
            if csd if grant.prong is Prong.CSD else cpu:
                finish(run, grant)
                done = True
    return [batch.index for batch in run.fetch(0, 0, 0, run_batches)]


def test_a_window_of_zero_gives_the_order_on_paper() -> None:
    quick = deliver(strategy("bounded", 0), 40, known=True)
    slow = deliver(strategy("bounded", 0), 40, {Prong.CPU: 3.0, Prong.CSD: 1.0}, known=False)
    assert quick.epoch.settled["share"] == pytest.approx(0.25)
    assert [i for i, end in enumerate(ends_of(quick.deals)) if end is End.TAIL] == list(
        range(1, 40, 4)
    )
    assert slow.epoch.settled["share"] == pytest.approx(0.75)


def ends_of(deals: Deals) -> list[End]:
    return [deals[place] for place in range(len(deals))]


def test_both_ends_are_taken_evenly_all_along() -> None:
    ends = ends_of(deliver(strategy("bounded", 0), 80, known=True).deals)
    for place in range(1, 80):
        assert abs(ends[:place].count(End.TAIL) - place / 4) <= 1


@pytest.mark.parametrize("window", [0, 1, 3, 7])
def test_the_order_deviates_by_no_more_than_the_window(window: int) -> None:
    without_csd = ready(30, window, csd=False, cpu=True)
    without_cpu = ready(30, window, csd=True, cpu=False)
    # On paper the ends take turns; the window says how far one may fall behind.
    assert abs(len(without_csd) - 2 * window) <= 2
    assert abs(len(without_cpu) - 2 * window) <= 2
    assert without_csd == list(range(len(without_csd)))


def test_a_window_without_end_waits_for_nobody() -> None:
    # The other side has begun two, which nobody else is given.
    assert set(range(10)) <= set(ready(12, math.inf, csd=False, cpu=True))
    assert set(range(2, 12)) <= set(ready(12, math.inf, csd=True, cpu=False))


def test_until_the_share_is_known_the_head_is_due() -> None:
    run = schedule(strategy("bounded", 0), 40, epochs=1)
    csd = next(grant for grant in run.top_up(0.0) if grant.prong is Prong.CSD)
    finish(run, csd)
    assert run.fetch(0, 0, 0, 4) == []


# replay


@pytest.mark.parametrize("text", ["12h", "12t", "3h2t1h5t1h", "1t11h"])
def test_a_replay_follows_the_recorded_order_whoever_is_quicker(text: str) -> None:
    deals = Deals(text)
    for seconds in (SECONDS, {Prong.CPU: 5.0, Prong.CSD: 1.0}):
        assert deliver(Replay({0: deals}), 12, seconds).order == deals.indices(0, 12)


def test_a_replay_of_an_adaptive_order_is_that_order() -> None:
    original = deliver("wrr", 40)
    again = deliver(Replay({0: original.deals}), 40, {Prong.CPU: 2.0, Prong.CSD: 1.0})
    assert again.order == original.order


def test_a_replay_goes_on_from_the_head_where_nothing_was_recorded() -> None:
    assert deliver(Replay({}), 5).order == list(range(5))
    assert deliver(Replay({0: Deals("2t")}), 5).order == [4, 3, 0, 1, 2]


# Names


def test_an_unknown_strategy_is_named_with_the_known_ones() -> None:
    with pytest.raises(
        InvalidInput, match="no strategy 'fast'; choose one of mte, wrr, bounded, cpu, csd"
    ):
        strategy("fast")


def test_a_replay_cannot_be_asked_for_by_name() -> None:
    assert set(STRATEGIES) - set(CHOICES) == {"replay"}
    with pytest.raises(InvalidInput, match="no strategy 'replay'"):
        strategy("replay")


@pytest.mark.parametrize(
    ("name", "window"), [("wrr", 3), ("mte", 0), ("bounded", -1), ("bounded", math.nan)]
)
def test_a_window_that_makes_no_sense_is_refused(name: str, window: float) -> None:
    with pytest.raises(InvalidInput, match=f"does not fit strategy {name}"):
        strategy(name, window)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_a_summary_in_a_sentence(name: str) -> None:
    assert STRATEGIES[name].summary.endswith(".")
