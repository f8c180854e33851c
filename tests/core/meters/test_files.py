"""Joules from the files of a device: counters that wrap, powers that are sampled, files that go."""

from pathlib import Path

import pytest

from ddlp.core.meters.files import EnergyCounter, NoSource, PowerSamples


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "reading"


def test_a_counter_is_read_from_where_it_stood(file: Path) -> None:
    meter = EnergyCounter(file)
    readings = []
    for microjoules in (5_000_000, 5_000_000, 7_500_000):
        file.write_text(f"{microjoules}\n")
        readings.append(meter.joules())
    assert readings == [0.0, 0.0, 2.5]
    assert str(file) in meter.method


def test_a_counter_that_wraps_goes_on_where_its_range_is_known(file: Path) -> None:
    (file.parent / "max_energy_range_uj").write_text("10000000")
    meter = EnergyCounter(file)
    file.write_text("9000000")
    assert meter.joules() == 0
    file.write_text("500000")
    assert meter.joules() == 1.5


def test_a_counter_that_was_reset_goes_on_from_there(file: Path) -> None:
    meter = EnergyCounter(file)
    for microjoules in (9_000_000, 10_000_000, 500_000):
        file.write_text(str(microjoules))
        last = meter.joules()
    assert last == 1.5


def test_power_is_added_up_over_time(file: Path) -> None:
    now = 100.0
    meter = PowerSamples(file, lambda: now)
    file.write_text("4000000")
    assert meter.joules() == 0.0
    file.write_text("6000000")
    now += 2
    assert meter.joules() == 10.0
    now += 1
    assert meter.joules() == 16.0


@pytest.mark.parametrize("text", ["", "n/a", "-5"])
def test_what_cannot_be_read_is_unknown_and_not_0(file: Path, text: str) -> None:
    file.write_text(text)
    assert EnergyCounter(file).joules() is None
    assert PowerSamples(file).joules() is None
    file.unlink()
    assert EnergyCounter(file).joules() is None
    assert NoSource().joules() is None


def test_what_was_drawn_in_a_gap_is_not_guessed_but_said(file: Path) -> None:
    now = 0.0
    meter = PowerSamples(file, lambda: now)
    for text in ("1000000", "gone", "1000000", "1000000"):
        file.write_text(text)
        last = meter.joules()
        now += 1
    assert last == 1.0
    assert meter.method.endswith("in 1 gaps it could not be read, and they are not counted")
