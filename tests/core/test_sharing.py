"""What a meter counted is divided without loss, and nobody is charged for what others did."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.sharing import LowestPower, Shares, divide, split

AMOUNT = st.floats(0, 1e6)
WORK = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1e4))


@given(AMOUNT, st.floats(-1e6, 1e7), WORK, AMOUNT)
def test_the_parts_are_all_there_is_and_none_is_below_nothing(
    joules: float, idle_j: float, work_s: dict[str, float], busy_s: float
) -> None:
    found = divide(joules, idle_j, work_s, busy_s)
    whole = found.idle_j + found.other_j + sum(found.runs_j.values())
    assert whole == pytest.approx(joules, rel=1e-9, abs=1e-6)
    assert min(found.idle_j, found.other_j, *found.runs_j.values()) >= 0


@given(AMOUNT, AMOUNT, WORK, AMOUNT)
def test_idle_is_what_was_said_as_far_as_it_was_counted(
    joules: float, idle_j: float, work_s: dict[str, float], busy_s: float
) -> None:
    assert divide(joules, idle_j, work_s, busy_s).idle_j == min(joules, idle_j)


@given(AMOUNT, AMOUNT, AMOUNT)
def test_nothing_is_charged_to_nobody(joules: float, idle_j: float, busy_s: float) -> None:
    found: Shares[str] = divide(joules, idle_j, {}, busy_s)
    assert found.runs_j == {}
    assert found.idle_j + found.other_j == pytest.approx(joules)
    assert split(joules, {}) == {}


@given(st.floats(1, 1e6), WORK, AMOUNT)
def test_runs_get_in_proportion_to_their_work(
    joules: float, work_s: dict[str, float], busy_s: float
) -> None:
    found = divide(joules, 0.0, work_s, busy_s)
    for run, joules_of_it in found.runs_j.items():
        for other, seconds in work_s.items():
            expected = found.runs_j[other] * work_s[run]
            assert joules_of_it * seconds == pytest.approx(expected, rel=1e-6, abs=1e-3)


@given(st.floats(1, 1e4), st.floats(1, 1e3), st.floats(1, 1e3))
def test_a_run_gets_its_part_of_what_the_host_was_busy(
    joules: float, work_s: float, other_s: float
) -> None:
    found = divide(joules, 0.0, {"a": work_s}, work_s + other_s)
    assert found.runs_j["a"] == pytest.approx(joules * work_s / (work_s + other_s))
    assert found.other_j == pytest.approx(joules * other_s / (work_s + other_s))


@given(st.floats(1, 1e6), st.floats(0, 1), st.floats(1, 100))
def test_more_work_than_the_host_was_busy_is_not_charged_beyond_what_was_counted(
    joules: float, believed: float, work_s: float
) -> None:
    found = divide(joules, 0.0, {"a": work_s, "b": 2 * work_s}, believed * 3 * work_s)
    assert sum(found.runs_j.values()) == pytest.approx(joules)
    assert found.other_j == pytest.approx(0, abs=1e-6)
    assert found.runs_j["b"] == pytest.approx(2 * found.runs_j["a"])


@given(AMOUNT, WORK)
def test_what_is_split_is_given_away_as_a_whole(joules: float, work_s: dict[str, float]) -> None:
    found = split(joules, work_s)
    assert min(found.values(), default=0) >= 0
    if sum(work_s.values()) > 1e-6:
        assert sum(found.values()) == pytest.approx(joules, rel=1e-9, abs=1e-6)


def test_who_did_not_work_gets_nothing() -> None:
    assert split(10.0, {"a": 0.0, "b": 2.0}) == {"a": 0.0, "b": 10.0}
    assert split(10.0, {"a": 0.0}) == {}


def test_the_lowest_power_that_was_seen_is_idle() -> None:
    lowest = LowestPower()
    assert lowest.watts is None
    assert lowest.idle_j(100.0, 2.0) == pytest.approx(100), "the first stretch may be idle"
    assert lowest.idle_j(40.0, 2.0) == pytest.approx(40)
    assert lowest.idle_j(300.0, 2.0) == pytest.approx(40), "20 W for 2 s"
    assert lowest.watts == pytest.approx(20)


def test_no_time_tells_nothing_of_the_lowest_power() -> None:
    lowest = LowestPower()
    assert lowest.idle_j(5.0, 0.0) == 0
    assert lowest.watts is None


@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(0.01, 100)), min_size=1))
def test_idle_is_never_more_than_what_was_counted(stretches: list[tuple[float, float]]) -> None:
    lowest = LowestPower()
    for joules, seconds in stretches:
        assert lowest.idle_j(joules, seconds) <= joules * (1 + 1e-9) + 1e-9
    watts = [joules / seconds for joules, seconds in stretches]
    assert lowest.watts == min(watts)
