"""Sums over wraps, resets and gaps: nothing twice, nothing guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.meters.tally import HIGHEST_W, CounterTally, PowerTally

STEPS = st.lists(st.tuples(st.floats(0.5, 30), st.floats(0, 1)), max_size=50)


@given(start=st.integers(0, 999_999_999), steps=STEPS)
def test_a_counter_that_wraps_loses_nothing(start: int, steps: list[tuple[float, float]]) -> None:
    wraps_at = 1_000_000_000
    tally, true_value, now_s = CounterTally(1e-6, wraps_at), start, 0.0
    tally.take(now_s, true_value)
    for passed_s, part in steps:
        # At most 30 W for 30 s: less than the 1,000 J after which it wraps.
        true_value += int(passed_s * part * 30e6)
        now_s += passed_s
        tally.take(now_s, true_value % wraps_at)
    assert tally.joules == pytest.approx((true_value - start) * 1e-6)
    assert tally.covered_s == pytest.approx(now_s)
    assert tally.mishaps == ""


@given(values=st.lists(st.one_of(st.none(), st.integers(0, 10**12)), max_size=40))
def test_whatever_a_counter_shows_the_sum_never_shrinks(values: list[int | None]) -> None:
    tally, before = CounterTally(1e-6, 10**9), 0.0
    for now_s, value in enumerate(values):
        if value is None:
            tally.lose()
        else:
            tally.take(float(now_s), value)
        assert tally.joules >= before
        before = tally.joules


def test_a_fall_that_would_take_too_much_power_is_a_reset() -> None:
    tally = CounterTally(1e-6, 262_000_000_000)
    tally.take(0, 5_000_000)
    tally.take(2, 9_000_000)
    tally.take(4, 1_000_000)  # a wrap would mean 131 kW
    tally.take(6, 4_000_000)
    assert tally.joules == pytest.approx(7)
    assert tally.covered_s == 4
    assert "it was reset 1 times" in tally.mishaps


def test_a_fall_within_what_can_be_drawn_is_a_wrap() -> None:
    tally = CounterTally(1.0, 1_000_000)
    most = int(HIGHEST_W * 2)
    tally.take(0, 1_000_000 - most + 10)
    tally.take(2, 10)
    assert tally.joules == most
    assert tally.mishaps == ""


def test_a_counter_without_a_range_that_falls_was_reset() -> None:
    tally = CounterTally(1e-3)
    for now_s, value in enumerate((1000, 3000, 500, 1500)):
        tally.take(now_s, value)
    assert tally.joules == pytest.approx(3)
    assert tally.covered_s == 2


def test_a_gap_is_in_neither_the_sum_nor_the_seconds() -> None:
    tally = CounterTally(1.0)
    tally.take(0, 100)
    tally.take(2, 110)
    tally.lose()
    tally.lose()
    tally.take(100, 5000)
    tally.take(102, 5020)
    assert (tally.joules, tally.covered_s) == (30, 4)
    assert tally.mishaps == "; in 1 gaps it could not be read, and they are not counted"


@given(power_w=st.floats(0, 1e4), passed=st.lists(st.floats(0, 100), max_size=20))
def test_an_even_power_is_power_times_time(power_w: float, passed: list[float]) -> None:
    tally, now_s = PowerTally(), 0.0
    tally.take(now_s, power_w)
    for passed_s in passed:
        now_s += passed_s
        tally.take(now_s, power_w)
    assert tally.joules == pytest.approx(power_w * now_s)
    assert tally.covered_s == pytest.approx(now_s)
