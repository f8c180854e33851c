"""Runs are compared with intervals that hold, and what is not known stays unknown."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.comparison import (
    Change,
    Comparison,
    Difference,
    Estimate,
    Measured,
    change,
    compare,
    estimate,
    t_quantile,
)
from ddlp.core.errors import InvalidInput

POSITIVE = st.floats(0.1, 10)
"""Not farther apart: 1 + change would have too few digits left to be compared."""
REPEATS = st.lists(POSITIVE, min_size=2, max_size=8)


def measured(
    run: str, group: str, figures: dict[str, float | None] | None = None, **conditions: str
) -> Measured:
    return Measured(run, group, figures or {}, conditions)


def repeats(**groups: Sequence[float | None]) -> Comparison:
    """A comparison of one figure, a run for each value."""
    return compare(
        [
            measured(f"{key}-{number}", key, {"speed": value})
            for key, values in groups.items()
            for number, value in enumerate(values)
        ]
    )


# Student's t


@pytest.mark.parametrize(
    ("df", "expected"),
    [
        (1, 12.706205),
        (2, 4.302653),
        (3, 3.182446),
        (4, 2.776445),
        (5, 2.570582),
        (6, 2.446912),
        (7, 2.364624),
        (8, 2.306004),
        (9, 2.262157),
        (10, 2.228139),
        (15, 2.131450),
        (20, 2.085963),
        (25, 2.059539),
        (30, 2.042272),
        (40, 2.021075),
        (60, 2.000298),
        (100, 1.983972),
        (120, 1.979930),
        (1000, 1.962339),
        (1e4, 1.960201),
        (1e9, 1.959964),
    ],
)
def test_the_quantile_is_the_one_in_tables(df: float, expected: float) -> None:
    assert t_quantile(df) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("df", [1.0, 1.3, 1.9, 2.5, 7.77, 33.3, 250.0, 999.9, 1000.1])
def test_95_percent_lie_within_the_quantile(df: float) -> None:
    t = np.linspace(0, t_quantile(df), 200_001)
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    within = 2 * scale * np.trapezoid((1 + t**2 / df) ** (-(df + 1) / 2), t)
    assert within == pytest.approx(0.95, abs=1e-6)


@given(df=st.floats(1, 1e6), more=st.floats(1e-3, 1e3))
def test_the_quantile_falls_with_the_degrees_of_freedom(df: float, more: float) -> None:
    assert t_quantile(df) > t_quantile(df + more) - 1e-5
    assert t_quantile(df) > 1.9599


@pytest.mark.parametrize("df", [0, 0.99, -1, math.nan])
def test_there_is_no_quantile_below_one_degree(df: float) -> None:
    with pytest.raises(InvalidInput, match="degrees of freedom"):
        t_quantile(df)


# Means


def test_a_mean_has_the_interval_of_student() -> None:
    found = estimate([10.0, 12.0, 14.0])
    assert found.n == 3
    assert found.mean == 12
    assert found.half == pytest.approx(4.302653 * 2 / math.sqrt(3), rel=1e-6)


def test_a_single_run_has_no_interval_and_none_no_mean() -> None:
    assert estimate([5.0]) == Estimate(1, 5.0, None)
    assert estimate([]) == Estimate(0, None, None)


def test_what_is_unknown_is_not_counted() -> None:
    [group] = repeats(a=[None, 4.0, math.nan, 6.0, math.inf]).groups
    assert (group.figures["speed"].n, group.figures["speed"].mean) == (2, 5.0)


@given(values=st.lists(st.floats(0, 1.7e308), min_size=1, max_size=5))
def test_extreme_values_do_not_break_the_mean(values: list[float]) -> None:
    found = estimate(values)
    assert found.mean is not None
    assert min(values) <= found.mean <= max(values)


# Changes


def test_a_change_is_relative_to_the_base() -> None:
    found = change([10.0, 10.0, 10.0], [11.0, 12.0, 13.0])
    assert found.relative == pytest.approx(0.2)
    # The base does not vary, so the degrees of freedom are those of the others.
    half = 4.302653 * (1 / math.sqrt(3)) / 12
    assert found.low == pytest.approx(1.2 * math.exp(-half) - 1, rel=1e-5)
    assert found.high == pytest.approx(1.2 * math.exp(half) - 1, rel=1e-5)
    assert found.clear is False
    assert change([10.0, 10.1, 9.9], [12.0, 12.1, 11.9]).clear is True
    assert change([12.0, 12.1, 11.9], [10.0, 10.1, 9.9]).clear is True


def test_a_single_run_a_group_gives_a_change_without_an_interval() -> None:
    for base, other in (([10.0], [12.0]), ([10.0, 10.0], [12.0]), ([10.0], [12.0, 12.0])):
        found = change(base, other)
        assert found.relative == pytest.approx(0.2)
        assert (found.low, found.high) == (None, None)
        assert found.clear is None


@pytest.mark.parametrize(
    ("base", "other"),
    [
        ([], [1.0, 2.0]),
        ([1.0, 2.0], []),
        ([0.0, 0.0], [1.0, 2.0]),
        ([1.0, 2.0], [0.0]),
        ([-1.0, 3.0], [1.0, 2.0]),
        ([1.0, 2.0], [-1.0, -2.0]),
        ([1e-308], [1e308]),
    ],
)
def test_where_there_is_no_ratio_the_change_is_unknown(
    base: list[float], other: list[float]
) -> None:
    assert change(base, other) == Change(None, None, None)
    assert change(base, other).clear is None


@given(base=REPEATS, other=REPEATS, scale=st.floats(1e-6, 1e6))
def test_units_do_not_matter(base: list[float], other: list[float], scale: float) -> None:
    found = change(base, other)
    scaled = change([value * scale for value in base], [value * scale for value in other])
    assert _ratios(scaled) == pytest.approx(_ratios(found), rel=1e-9)


@given(base=REPEATS, other=REPEATS)
def test_swapping_two_groups_inverts_the_ratio(base: list[float], other: list[float]) -> None:
    ratio, low, high = _ratios(change(base, other))
    back, back_low, back_high = _ratios(change(other, base))
    assert ratio * back == pytest.approx(1)
    assert low * back_high == pytest.approx(1)
    assert high * back_low == pytest.approx(1)


@given(base=REPEATS, other=REPEATS)
def test_the_change_lies_in_its_interval(base: list[float], other: list[float]) -> None:
    ratio, low, high = _ratios(change(base, other))
    assert low * (1 - 1e-9) <= ratio <= high * (1 + 1e-9)


@settings(max_examples=30)
@given(value=POSITIVE, n=st.integers(2, 5))
def test_repeats_without_any_spread_are_certain(value: float, n: int) -> None:
    found = change([value] * n, [value] * n)
    assert (found.relative, found.low, found.high) == (0, 0, 0)
    assert found.clear is False


@pytest.mark.parametrize("kind", ["normal", "lognormal"])
def test_95_percent_of_the_intervals_hold_the_true_ratio(kind: str) -> None:
    random = np.random.default_rng(7)
    trials, n, cv, ratio = 2000, 5, 0.05, 1.1
    covered = 0
    for _ in range(trials):
        if kind == "normal":
            base, other = random.normal(1, cv, n), ratio * random.normal(1, 2 * cv, n)
        else:
            base = random.lognormal(-(cv**2) / 2, cv, n)
            other = ratio * random.lognormal(-(cv**2) / 2, cv, n)
        found = change(base.tolist(), other.tolist())
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= ratio - 1 <= found.high
    assert 0.92 <= covered / trials <= 0.98


def _ratios(found: Change) -> tuple[float, float, float]:
    """The ratio and its interval."""
    assert found.relative is not None
    assert found.low is not None
    assert found.high is not None
    return 1 + found.relative, 1 + found.low, 1 + found.high


# Groups


def test_groups_keep_the_order_in_which_they_appear() -> None:
    found = compare(
        [
            measured("r1", "cpu", {"speed": 10.0}),
            measured("r2", "wrr", {"speed": 20.0, "joules": 5.0}),
            measured("r3", "cpu", {"speed": 12.0}),
        ]
    )
    assert [(group.key, group.runs) for group in found.groups] == [
        ("cpu", ("r1", "r3")),
        ("wrr", ("r2",)),
    ]
    assert found.base.key == "cpu"
    assert found.base.changes == {}
    assert found.base.figures["joules"] == Estimate(0, None, None)
    assert found.groups[1].changes["speed"].relative == pytest.approx(20 / 11 - 1)
    assert found.groups[1].changes["joules"] == Change()


def test_what_was_different_is_said() -> None:
    found = compare(
        [
            measured("r1", "a", seed="0", strategy="cpu", dataset="fruit"),
            measured("r2", "a", seed="1", strategy="cpu", dataset="fruit"),
            measured("r3", "b", seed="1", strategy="wrr", dataset="fruit"),
            measured("r4", "b", seed="0", strategy="wrr", dataset="fruit", engine="fused"),
        ]
    )
    assert found.differences == (
        Difference("strategy", ("cpu", "wrr")),
        Difference("engine", (None, "fused")),
    )


def test_repeats_alone_have_no_differences() -> None:
    found = repeats(a=[1.0, 2.0])
    assert len(found.groups) == 1
    assert found.differences == ()


def test_at_least_two_runs_are_needed_each_once() -> None:
    with pytest.raises(InvalidInput, match="at least two"):
        compare([measured("r1", "a")])
    with pytest.raises(InvalidInput, match="twice"):
        compare([measured("r1", "a"), measured("r1", "a")])
