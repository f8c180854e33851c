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


PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12)


@settings(max_examples=150, deadline=None)
@given(pairs=PAIRS, more=st.lists(NUMBERS, max_size=20))
def test_ranges_that_touch_overlap_or_are_empty_can_be_given_at_the_start(
    pairs: list[tuple[int, int]], more: list[int]
) -> None:
    given_at_once = Ranges(pairs)
    one_by_one = of([number for start, stop in pairs for number in range(start, stop)])
    assert list(given_at_once) == list(one_by_one)
    for number in more:
        given_at_once.add(number)
        one_by_one.add(number)
    assert list(given_at_once) == list(one_by_one)


def test_adjacent_and_overlapping_ranges_count_each_number_once() -> None:
    adjacent = Ranges([(0, 5), (5, 8)])
    adjacent.add(4)
    assert len(adjacent) == 8
    assert len(Ranges([(0, 3), (1, 5)])) == 5


@settings(max_examples=150, deadline=None)
@given(numbers=st.lists(NUMBERS, max_size=60), total=st.integers(0, 45))
def test_the_gaps_below_a_total_are_all_that_is_not_in_it(numbers: list[int], total: int) -> None:
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
