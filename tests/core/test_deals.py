"""The order of delivery as runs: written, read, counted, and turned into batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.deals import Deals
from ddlp.core.errors import InvalidInput
from ddlp.core.types import End

ENDS = st.lists(st.sampled_from(End), max_size=60)


@given(ends=ENDS)
def test_what_was_written_is_read_again(ends: list[End]) -> None:
    deals = Deals(Deals.of(ends).text)
    assert [deals[place] for place in range(len(deals))] == ends
    assert all(deals.count(end) == ends.count(end) for end in End)


@given(ends=ENDS, first=st.integers(0, 1000))
def test_each_batch_is_the_next_from_its_end(ends: list[End], first: int) -> None:
    left = list(range(first, first + len(ends)))
    expected = [left.pop(0 if end is End.HEAD else -1) for end in ends]
    assert Deals.of(ends).indices(first, first + len(ends)) == expected


@given(ends=ENDS, short=st.integers(0, 12), first=st.integers(0, 1000))
def test_short_batches_come_after_all_others_whatever_end_is_said(
    ends: list[End], short: int, first: int
) -> None:
    last, full = first + len(ends), first + max(0, len(ends) - short)
    both = list(range(first, full))
    expected = [both.pop(0 if end is End.HEAD else -1) for end in ends[: len(both)]]
    expected += range(full, last)
    for count in range(len(ends) + 1):
        assert Deals.of(ends[:count]).indices(first, last, full) == expected[:count]


def test_it_is_as_short_as_the_order_is_simple() -> None:
    assert Deals.of([End.HEAD] * 12 + [End.TAIL] * 3).text == "12h3t"
    assert Deals("1000000h1000000t").count(End.TAIL) == 10**6
    assert Deals("1000000000h")[999_999_999] is End.HEAD


def test_an_unfinished_order_holds_what_was_delivered_so_far() -> None:
    assert Deals("2h1t").indices(10, 20) == [10, 11, 19]


def test_an_empty_order_has_nothing_in_it() -> None:
    assert len(Deals()) == len(Deals.of([])) == 0
    assert Deals().indices(0, 5) == []


@pytest.mark.parametrize("place", [-1, 3, 4])
def test_a_place_beyond_the_order_is_none(place: int) -> None:
    with pytest.raises(IndexError):
        Deals("2h1t")[place]


@pytest.mark.parametrize(
    "text", ["h", "3", "0h", "03h", "3x", "3h ", "3h-2t", "3H", "3h2", "1.5h", "٣h"]
)
def test_what_is_no_order_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is no order of delivery; write it as 12h3t"):
        Deals(text)
