"""Sizes and times in units that people read."""

import pytest

from ddlp.core.units import digits, duration, joule_unit, joules, joules_in, size


@pytest.mark.parametrize(
    ("nbytes", "words"),
    [
        (0, "0 bytes"),
        (121, "121 bytes"),
        (3_200, "3.2 kB"),
        (999_960, "1.0 MB"),
        (40_500_000, "40.5 MB"),
        (2.5e9, "2.5 GB"),
        (3.07e15, "3,070.0 TB"),
    ],
)
def test_a_size_is_said_in_a_unit_that_it_fills(nbytes: float, words: str) -> None:
    assert size(nbytes) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1, "0 s"), (59.4, "59 s"), (125, "2 min 5 s"), (7260, "2 h 1 min")]
)
def test_a_time_is_said_in_units_that_people_read(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (1234.5, "1,234"),
        (99.96, "100"),
        (9.99, "9.99"),
        (0.0000123, "0.0000123"),
        (2, "2"),
    ],
)
def test_three_digits_count_and_none_is_a_power_of_ten(value: float, words: str) -> None:
    assert digits(value) == words


def test_a_column_is_read_in_the_unit_of_its_largest_figure() -> None:
    column = [0.00251, None, 0.0138]
    unit = joule_unit(column)
    assert [joules_in(value, unit) for value in column] == ["2.51", "—", "13.8"]
    assert (unit, joule_unit([0.5, 0.002]), joule_unit([2e-6])) == ("mJ", "J", "µJ")
    assert (joule_unit([None]), joule_unit([])) == ("J", "J")
    assert [joules(value) for value in (None, 0.0, 1e-6, 0.0025)] == ["—", "0 J", "1 µJ", "2.5 mJ"]
