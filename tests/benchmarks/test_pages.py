"""The benchmarks of pages, small; what they measure is not looked at."""

import pytest

from benchmarks import first_page, live_pages, open_page_memory

pytestmark = [pytest.mark.browser, pytest.mark.long]


def test_the_first_page_can_be_measured() -> None:
    report = first_page.measure_at(first_page.Scale(few=2, many=5, seconds=60, rounds=1))
    assert len(report.rounds) == 4
    assert all(ms > 0 for [ms] in report.rounds.values())
    assert all(kb > 1 for [kb] in report.beside["kB"].values())


def test_live_pages_can_be_measured() -> None:
    scale = live_pages.Scale(pages=6, runs=2, stretch_s=3.0, rounds=1, batch_s=0.1)
    report = live_pages.measure_at(scale)
    assert set(report.rounds) == {"no page", "6 on one run", "6 over 2 runs"}
    assert all(rate > 0 for [rate] in report.beside["messages/s a page"].values())


def test_the_memory_of_an_open_page_can_be_measured() -> None:
    scale = open_page_memory.Scale(minutes=2, minute_s=3.0, batch_s=0.1)
    reports = open_page_memory.measure_at(scale)
    assert all(value > 0 for part in reports.parts for value in part.medians().values())
