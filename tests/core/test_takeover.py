"""A state says in a few numbers what was delivered; what is left of the epoch follows from it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.errors import InvalidInput
from ddlp.core.plan import RunPlan, Segment
from ddlp.core.takeover import Origin, segment_from, segment_json
from ddlp.core.types import TailPolicy

PLAN = RunPlan(46, 10, 3, 7, world_size=2)
"""Six batches an epoch: four full ones, and two of three samples."""
PLANS = st.builds(
    RunPlan,
    samples=st.integers(1, 200),
    batch_size=st.integers(2, 9),
    epochs=st.none() | st.integers(1, 3),
    seed=st.just(1),
    world_size=st.integers(1, 5),
    tail=st.just(TailPolicy.SHORT),
)


def origin(position: int = 4, heads: int = 3, **changes: Any) -> Origin:
    return Origin("a-run", 1, position, heads, changes.pop("segments", (PLAN.whole,)))


def places_of(segment: Segment, index: int) -> set[int]:
    return {place for a, b in segment.places(index) for place in range(a, b)}


def delivered(segment: Segment, heads: int, tails: int) -> set[int]:
    """The places that so many deals from each end deliver: short batches once all others are."""
    first, short = segment.first, segment.first + segment.full
    both = min(heads, segment.full - tails)
    indices = [
        *range(first, first + both),
        *range(short - tails, short),
        *range(short, short + heads - both),
    ]
    return {place for index in indices for place in places_of(segment, index)}


@settings(deadline=None)
@given(plan=PLANS, ranks=st.integers(1, 5), data=st.data())
def test_what_was_delivered_and_what_is_left_are_the_whole_epoch(
    plan: RunPlan, ranks: int, data: st.DataObject
) -> None:
    """Through any number of runs: each takes over from the one before it, with other ranks."""
    seen: set[int] = set()
    cuts = [plan.whole]
    for _ in range(data.draw(st.integers(1, 3))):
        cut = cuts[-1]
        heads = data.draw(st.integers(0, cut.batches))
        tails = data.draw(st.integers(0, min(cut.full, cut.batches - heads)))
        seen |= delivered(cut, heads, tails)
        state = Origin("before", 0, cut.position + heads + tails, heads, tuple(cuts))
        state.check(plan)
        assert (state.tails, state.complete) == (tails, heads + tails == cut.batches)
        plan = replace(plan, world_size=ranks)
        cuts = [state.rest(plan)]
        assert cuts[0].position == state.position
        repeats = cut.repeated() > 0  # fewer samples than ranks: some hold the same ones
        left = {p for i in range(cuts[0].first, cuts[0].last) for p in places_of(cuts[0], i)}
        assert seen | left == set(range(plan.samples))
        assert repeats or not seen & left


def test_at_the_beginning_of_an_epoch_all_of_it_is_left() -> None:
    wide = replace(PLAN, world_size=5, tail=TailPolicy.PAD)
    assert origin(position=0, heads=0).rest(wide) == wide.whole


def test_the_rest_is_cut_as_the_run_that_takes_over_has_it() -> None:
    rest = origin().rest(replace(PLAN, world_size=1, tail=TailPolicy.DROP))
    assert (rest.first, rest.position, rest.world_size) == (6, 4, 1)
    assert rest.tail is TailPolicy.DROP
    assert (rest.samples, rest.batches, rest.dropped()) == (6, 0, 6)


def test_after_a_whole_epoch_the_next_one_comes() -> None:
    done = origin(position=6, heads=4)
    assert (done.complete, done.first_epoch) == (True, 2)
    assert (origin().complete, origin().first_epoch) == (False, 1)


@given(
    position=st.integers(0, 6),
    heads=st.integers(0, 6),
    spare=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=2),
)
def test_a_state_is_kept_as_json_and_comes_back_the_same(
    position: int, heads: int, spare: list[tuple[int, int]]
) -> None:
    cut = replace(PLAN.whole, spare=tuple(spare))
    assert segment_from(segment_json(cut)) == cut
    if heads <= position and position - heads <= 4:
        kept = origin(position, heads)
        assert Origin.from_json(kept.as_json()) == kept


# States that cannot be


@pytest.mark.parametrize(
    ("position", "heads"), [(-1, 0), (7, 7), (4, 5), (4, -1), (6, 1), (10**9, 3)]
)
def test_numbers_that_no_delivery_leads_to_are_refused(position: int, heads: int) -> None:
    with pytest.raises(ValueError, match="the state cannot be right"):
        origin(position, heads)
    with pytest.raises(InvalidInput, match=f"the state cannot be right: {position} batches"):
        Origin.from_json({**origin().as_json(), "position": position, "heads": heads})


@pytest.mark.parametrize(
    "change",
    [
        {"segments": []},
        {"segments": None},
        {"segments": [{}]},
        {"segments": [{**segment_json(PLAN.whole), "batch_size": 0}]},
        {"segments": [{**segment_json(PLAN.whole), "world_size": 0}]},
        {"segments": [{**segment_json(PLAN.whole), "tail": "cut"}]},
        {"segments": [{**segment_json(PLAN.whole), "start": "0"}]},
        {"segments": [{**segment_json(PLAN.whole), "spare": [[1, 2, 3]]}]},
        {"segments": [{**segment_json(PLAN.whole), "more": 1}]},
        {"position": "4"},
        {"heads": None},
    ],
    ids=str,
)
def test_what_is_no_state_is_refused_with_a_reason(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"the state cannot be gone on from: \S"):
        Origin.from_json({**origin().as_json(), **change})


def test_a_state_without_a_field_is_refused() -> None:
    kept = origin().as_json()
    del kept["heads"]
    with pytest.raises(InvalidInput, match="heads"):
        Origin.from_json(kept)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (replace(PLAN, samples=45), "a run over 45 samples in batches of 10"),
        (replace(PLAN, batch_size=9), "a run over 46 samples in batches of 9"),
    ],
)
def test_a_state_of_another_plan_is_refused(plan: RunPlan, words: str) -> None:
    with pytest.raises(InvalidInput, match=f"the state cannot be of {words}"):
        origin().check(plan)


@pytest.mark.parametrize("spare", [((0, 47),), ((-1, 3),), ((5, 2),)])
def test_a_stretch_outside_the_epoch_is_refused(spare: tuple[tuple[int, int], ...]) -> None:
    segment = Segment(0, 10, 10, 1, spare=spare)
    with pytest.raises(InvalidInput, match="the state cannot be of a run over 46 samples"):
        Origin("a-run", 1, 0, 0, (segment,)).check(PLAN)


def test_a_state_fits_whatever_number_of_ranks_epochs_and_tail_policy() -> None:
    origin().check(replace(PLAN, world_size=9, epochs=None, tail=TailPolicy.DROP))
