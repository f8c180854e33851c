"""Benchmarks run as small tests, so that they never rot."""

from benchmarks import hand_over, path_cost
from benchmarks.report import Report


def test_ratios_are_taken_within_each_round() -> None:
    report = Report("?", "none", "s", "a", rounds={"a": [1.0, 10.0, 2.0], "b": [2.0, 20.0, 4.0]})
    assert report.ratios() == {"a": 1.0, "b": 2.0}
    assert "| b | 4 | 2.000 |" in report.table()


def test_the_path_cost_can_be_measured() -> None:
    rates = path_cost.measure(quick=True).medians()
    assert set(rates) == {"bare loop", "DualLoader.local", "whole stack"}
    assert all(rate > 0 for rate in rates.values())


def test_the_hand_over_can_be_measured() -> None:
    times = hand_over.measure(quick=True).medians()
    assert times["file to uint8"] > 0
