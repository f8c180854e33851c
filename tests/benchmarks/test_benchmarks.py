"""Benchmarks run as small tests, so that they never rot; what they measure is not looked at."""

from pathlib import Path

import pytest

from benchmarks import (
    batch_io,
    csd_cost,
    hand_over,
    loader_start,
    path_cost,
    round_trip,
    run_page,
    scheduling,
    telemetry_cost,
    two_prongs,
)
from benchmarks.report import Report


def test_ratios_are_taken_within_each_round() -> None:
    report = Report("?", "none", "s", "a", rounds={"a": [1.0, 10.0, 4.0], "b": [2.0, 20.0, 2.0]})
    assert report.ratios() == {"a": 1.0, "b": 2.0}
    assert "| b | 2 | 2.000 |" in report.table()


@pytest.mark.long
def test_the_path_cost_can_be_measured() -> None:
    report = path_cost.measure_at(path_cost.Scale(batch=4, batches=16, rounds=1, real=False))
    assert set(report.rounds) == {"bare engine", "DualLoader.local", "whole stack"}
    assert all(rate > 0 for [rate] in report.rounds.values())
    [[share], *_] = [figures["whole stack"] for figures in report.beside.values()]
    assert 0 < share < 1


@pytest.mark.long
def test_what_telemetry_costs_can_be_measured() -> None:
    scale = telemetry_cost.Scale(batch=4, batches=16, rounds=1, real=False)
    report = telemetry_cost.measure_at(scale)
    assert all(rate > 0 for [rate] in report.rounds.values())
    assert len(report.rounds) == 2


def test_the_page_of_a_large_run_can_be_measured() -> None:
    reports = run_page.measure_at(run_page.Scale(few=50, many=200, rounds=1))
    assert all(ms > 0 for part in reports.parts for ms in part.medians().values())


def test_the_hand_over_can_be_measured() -> None:
    assert min(hand_over.measure(quick=True).medians().values()) > 0


def test_drives_can_be_measured() -> None:
    report = batch_io.measure(quick=True)
    assert all(rate > 0 for part in report.parts for rate in part.medians().values())


@pytest.mark.long
def test_what_a_csds_batches_cost_can_be_measured() -> None:
    report = csd_cost.measure_at(csd_cost.Scale(batch=4, batches=8, rounds=1, real=False))
    assert all(cost > 0 for cost in report.medians().values())


@pytest.mark.long
def test_the_round_trip_can_be_measured() -> None:
    assert min(round_trip.measure(quick=True).medians().values()) > 0


@pytest.mark.long
def test_both_prongs_can_be_measured() -> None:
    report = two_prongs.measure_at(two_prongs.Scale(batch=4, batches=12, rounds=1, real=False))
    assert set(report.rounds) > {"wrr", "bounded", "mte"}
    assert all(rate > 0 for [rate] in report.rounds.values())


def test_the_scheduling_can_be_measured(tmp_path: Path) -> None:
    case = scheduling.Case("10^5, from the middle", 10**5, 200, 10**5 // 2)
    assert scheduling.Plane(tmp_path, None, case).run().wall_s > 0


@pytest.mark.long
def test_a_loaders_start_can_be_measured() -> None:
    report = loader_start.measure(quick=True)
    assert min(report.medians().values()) > 0
