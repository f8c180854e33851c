"""Sessions: what each received follows on from the last, and what was lost between them is said."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.sessions import Checkpoint, SessionPart, Start, uncovered

MARKS_KNOWN: list[Checkpoint | None] = [None, (0, 0), (0, 5), (2, 4)]
MARKS = st.none() | st.tuples(st.integers(0, 5), st.integers(0, 50))
PARTS = st.builds(
    lambda rank, more, **fields: SessionPart(rank=rank, world_size=rank + 1 + more, **fields),
    session=st.uuids().map(str),
    rank=st.integers(0, 5),
    more=st.integers(0, 3),
    start=st.sampled_from(Start),
    first=st.integers(0, 50),
    last=st.none() | st.integers(50, 90),
    received=st.none() | st.integers(0, 90),
    handed=st.none() | st.integers(0, 90),
    checkpoint=MARKS,
)


def part(
    first: int, last: int | None = None, rank: int = 0, world_size: int = 1, **fields: Any
) -> SessionPart:
    return SessionPart(
        "one", rank, world_size, fields.pop("start", Start.STATE), first, last, **fields
    )


@given(PARTS)
def test_a_part_is_kept_as_json_and_comes_back_the_same(kept: SessionPart) -> None:
    assert SessionPart.from_json(kept.as_json()) == kept


@pytest.mark.parametrize(("rank", "world_size"), [(-1, 1), (1, 1), (0, 0), (3, 2)])
def test_a_rank_outside_the_world_is_none(rank: int, world_size: int) -> None:
    with pytest.raises(ValueError, match=f"rank {rank} is not in a world of {world_size}"):
        part(0, rank=rank, world_size=world_size)


# What was lost


@pytest.mark.parametrize("start", [Start.BEGINNING, Start.ONWARD, Start.STATE])
@pytest.mark.parametrize("mark", [None, (0, 0), (2, 4), (3, 8)])
def test_nothing_is_lost_where_a_session_goes_on_from_what_it_knows(
    start: Start, mark: Checkpoint | None
) -> None:
    assert part(8, start=start, checkpoint=mark).lost(2) is None


@pytest.mark.parametrize("start", [Start.CONTINUE, Start.EPOCH])
def test_a_state_that_was_taken_there_and_not_loaded_is_told(start: Start) -> None:
    """It may never have been saved."""
    words = part(8, start=start, checkpoint=(2, 8)).lost(2)
    assert words == (
        "rank 0: a state was taken at step 8 of epoch 2, but the session that went on there did "
        "not load it"
    )


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_session_that_goes_back_trains_on_an_epoch_once_more(epoch: int) -> None:
    words = part(0, start=Start.AGAIN).lost(epoch)
    assert words == f"rank 0: the session that had epoch {epoch} trained on it once more"


@pytest.mark.parametrize(
    ("mark", "since"),
    [
        ((2, 4), "step 2 of epoch 2"),
        ((1, 8), "step 4 of epoch 1"),
        ((3, 8), "step 4 of epoch 3"),
        (None, "step 0 of epoch 0 (no checkpoint)"),
    ],
)
def test_who_continues_elsewhere_has_lost_what_was_trained_since_the_checkpoint(
    mark: Checkpoint | None, since: str
) -> None:
    words = part(8, rank=1, world_size=2, start=Start.CONTINUE, checkpoint=mark).lost(2)
    assert words is not None
    assert words.startswith("rank 1: a session was lost between step ")
    assert f"between {since} and step 4 of epoch 2:" in words


def test_an_epoch_that_is_begun_again_without_a_state_breaks_the_line() -> None:
    words = part(0, start=Start.EPOCH, checkpoint=(2, 4)).lost(2)
    assert words == (
        "rank 0: epoch 2 was begun without a state that was taken there; the last one that "
        "is known was taken at step 4 of epoch 2"
    )


@pytest.mark.parametrize("mark", MARKS_KNOWN)
def test_who_begins_with_the_first_epoch_again_has_lost_nothing_of_the_line(
    mark: Checkpoint | None,
) -> None:
    assert part(0, start=Start.EPOCH, checkpoint=mark).lost(0) is None


def test_who_takes_what_is_left_of_a_run_of_which_nothing_was_consumed_has_lost_nothing() -> None:
    assert part(0, start=Start.CONTINUE).lost(0) is None
    assert part(0, start=Start.CONTINUE).lost(1) is not None


# Where a part ends


def test_a_session_that_ends_has_received_what_it_said_and_may_have_trained_with_more() -> None:
    ended = part(4).ended(received=8, handed=11)
    assert (ended.last, ended.received, ended.handed) == (8, 8, 11)
    assert part(4).ended(received=8, handed=3).handed == 8


def test_a_session_ends_once() -> None:
    ended = part(4).ended(8, 8)
    assert ended.ended(12, 12) == ended


@pytest.mark.parametrize(
    ("last", "place", "found"), [(8, 6, 6), (8, 9, 8), (None, 6, 6), (8, 2, 4)]
)
def test_what_is_delivered_again_is_no_more_part_of_it(
    last: int | None, place: int, found: int
) -> None:
    before = part(4, last, received=10)
    assert before.cut(place).last == found
    assert before.cut(place).received == 10, "it did receive that"


# Whether the parts cover an epoch


@pytest.mark.parametrize(
    ("parts", "gap"),
    [
        ([part(0, 4), part(4, 9)], None),
        ([part(4, 9), part(0, 4)], None),
        ([part(0, 4), part(4, 4), part(4, 9)], None),
        ([part(0, 4), part(4, None)], None),
        ([], (0, 9)),
        ([part(0, 4)], (4, 9)),
        ([part(3, 9)], (0, 3)),
        ([part(0, 4), part(6, 9)], (4, 6)),
        ([part(0, 6), part(4, 9)], (6, 4)),
        ([part(0, 9, rank=1, world_size=2)], (0, 9)),
    ],
)
def test_the_parts_of_a_rank_must_follow_each_other(
    parts: list[SessionPart], gap: tuple[int, int] | None
) -> None:
    found = uncovered(parts, 0, 0, 9)
    if gap is None:
        assert found is None
    else:
        assert found == (
            f"rank 0: no session is named for what lies between places {gap[0]} and {gap[1]}"
        )


def test_an_epoch_that_is_not_over_may_end_anywhere() -> None:
    assert uncovered([part(0, 4)], 0, 0, None) is None
    assert uncovered([part(0, 4), part(5, 6)], 0, 0, None) is not None


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_stretches_that_join_cover_everything_and_without_one_of_them_do_not(
    lengths: list[int], data: st.DataObject
) -> None:
    ends = [sum(lengths[: n + 1]) for n in range(len(lengths))]
    parts = [part(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    mixed = data.draw(st.permutations(parts))
    assert uncovered(mixed, 0, 0, ends[-1]) is None
    without = data.draw(st.sampled_from(parts))
    assert uncovered([p for p in mixed if p is not without], 0, 0, ends[-1]) is not None
