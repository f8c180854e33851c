"""Sizes and times in units that people read."""

import pytest

from ddlp.core.units import duration, size


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
