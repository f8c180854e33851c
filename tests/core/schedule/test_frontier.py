"""The two-ended cursor: each batch once, short ones when both ends have met, lost ones again."""

from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.schedule.frontier import Frontier
from ddlp.core.types import End

ENDS = st.lists(st.sampled_from(End), min_size=40, max_size=40)


def frontier(full: int, short: int, first: int = 0) -> Frontier:
    return Frontier(first, first + full, first + full, first + full + short)


def take(cursor: Frontier, end: End) -> int | None:
    return cursor.take(end, cursor.tail if end is End.HEAD else cursor.head)


@given(full=st.integers(0, 20), short=st.integers(0, 6), first=st.integers(0, 9), ends=ENDS)
def test_each_batch_is_taken_once_and_short_ones_last(
    full: int, short: int, first: int, ends: list[End]
) -> None:
    cursor = frontier(full, short, first)
    assert cursor.untouched == full + short
    taken = [index for end in ends if (index := take(cursor, end)) is not None]
    assert sorted(taken[:full]) == list(range(first, first + full))
    assert taken[full:] == list(range(first + full, first + full + short))
    assert cursor.met
    assert cursor.untouched == 0


@given(ends=ENDS)
def test_what_would_be_taken_next_is_what_is_taken(ends: list[End]) -> None:
    cursor = frontier(7, 2)
    for end in ends[:9]:
        wanted = cursor.next(end)
        assert take(cursor, end) == wanted


def test_a_stop_holds_for_full_batches_and_not_for_short_ones() -> None:
    cursor = frontier(2, 1)
    assert cursor.take(End.HEAD, 0) is None
    assert cursor.take(End.TAIL, 2) is None
    assert [cursor.take(End.HEAD, 1), cursor.take(End.TAIL, 1)] == [0, 1]
    assert cursor.take(End.HEAD, 0) == 2


def test_lost_ones_come_again_those_with_a_place_first() -> None:
    cursor = frontier(6, 2)
    for _ in range(8):
        take(cursor, End.HEAD)
    for index, place in ((3, None), (7, 5), (1, 2), (4, None)):
        cursor.give_back(index, place)
    assert not cursor.met
    assert cursor.take_returned({3, 4}) == 3
    assert [cursor.take_returned() for _ in range(4)] == [1, 7, 4, None]
    assert cursor.met
