"""A set of ranges is a set."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.ranges import Ranges

NUMBERS = st.integers(0, 40)


def contents(ranges: Ranges) -> set[int]:
    return {number for start, stop in ranges for number in range(start, stop)}


def of(numbers: list[int]) -> Ranges:
    ranges = Ranges()
    for number in numbers:
        ranges.add(number)
    return ranges


@settings(max_examples=150, deadline=None)
@given(numbers=st.lists(NUMBERS, max_size=60))
def test_it_holds_what_was_put_in_whatever_the_order(numbers: list[int]) -> None:
    ranges = of(numbers)
    assert contents(ranges) == set(numbers)
    assert len(ranges) == len(set(numbers))


@settings(max_examples=150, deadline=None)
@given(numbers=st.lists(NUMBERS, max_size=60))
def test_its_ranges_are_sorted_and_never_touch(numbers: list[int]) -> None:
    ranges = list(of(numbers))
    assert all(start < stop for start, stop in ranges)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges)), (
        "two ranges that touch should be one"
    )


@settings(max_examples=150, deadline=None)
@given(numbers=st.lists(NUMBERS, max_size=60), more=st.lists(NUMBERS, max_size=20))
def test_it_is_the_same_after_it_was_written_down_and_read_again(
    numbers: list[int], more: list[int]
) -> None:
    ranges = Ranges(reversed(list(of(numbers))))
    assert list(ranges) == list(of(numbers))
    for number in more:
        ranges.add(number)
    assert list(ranges) == list(of(numbers + more))


@settings(max_examples=150, deadline=None)
@given(numbers=st.lists(NUMBERS, max_size=60), beyond=st.integers(0, 5))
def test_the_gaps_are_all_that_is_not_in_it(numbers: list[int], beyond: int) -> None:
    total = max(numbers, default=-1) + 1 + beyond
    gaps = of(numbers).gaps(total)
    missing = [number for start, stop in gaps for number in range(start, stop)]
    assert missing == sorted(set(range(total)) - set(numbers))
    assert all(start < stop for start, stop in gaps)


def test_a_million_numbers_without_a_gap_are_one_range() -> None:
    ranges = Ranges([(0, 1_000_000)])
    ranges.add(1_000_000)
    assert list(ranges) == [(0, 1_000_001)]
    assert ranges.gaps(1_000_001) == []


def test_an_empty_one_is_all_gap() -> None:
    assert Ranges().gaps(5) == [(0, 5)]
    assert Ranges().gaps(0) == []
    assert len(Ranges()) == 0
