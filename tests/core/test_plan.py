"""A plan cuts an epoch into batches: as many for each rank, and every sample as the tail has it."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.plan import RunPlan, Segment
from ddlp.core.types import TailPolicy

SHORT, DROP, PAD = TailPolicy

SEGMENTS = st.builds(
    lambda start, samples, batch_size, world_size, tail, first: Segment(
        start, start + samples, batch_size, world_size, tail, first
    ),
    start=st.integers(0, 50),
    samples=st.integers(0, 300),
    batch_size=st.integers(1, 40),
    world_size=st.integers(1, 9),
    tail=st.sampled_from(TailPolicy),
    first=st.integers(0, 20),
)


def places(segment: Segment) -> list[int]:
    """All places that a segment delivers, batch by batch."""
    return [place for index in batches(segment) for place in places_of(segment, index)]


def places_of(segment: Segment, index: int) -> list[int]:
    return [place for start, stop in segment.places(index) for place in range(start, stop)]


def batches(segment: Segment) -> range:
    return range(segment.first, segment.last)


@settings(max_examples=200, deadline=None)
@given(segment=SEGMENTS)
def test_every_rank_gets_as_many_batches(segment: Segment) -> None:
    assert segment.batches == segment.rounds * segment.world_size


@settings(max_examples=200, deadline=None)
@given(segment=SEGMENTS)
def test_what_is_delivered_is_every_place_apart_from_what_is_said(segment: Segment) -> None:
    counts = Counter(places(segment))
    assert set(counts) <= set(range(segment.start, segment.stop))
    assert segment.samples - len(counts) == segment.dropped()
    assert counts.total() - len(counts) == segment.repeated()


@settings(max_examples=200, deadline=None)
@given(segment=SEGMENTS)
def test_a_batch_is_as_long_as_the_plan_says_and_never_longer_than_it_may_be(
    segment: Segment,
) -> None:
    lengths = [len(places_of(segment, index)) for index in batches(segment)]
    assert lengths == [segment.length(index) for index in batches(segment)]
    assert all(1 <= length <= segment.batch_size for length in lengths)


@settings(max_examples=200, deadline=None)
@given(segment=SEGMENTS.filter(lambda s: s.tail is SHORT and s.samples >= 2 * s.world_size))
def test_a_short_tail_delivers_every_sample_once_wherever_that_can_be(segment: Segment) -> None:
    each = segment.batch_size * segment.world_size
    possible = segment.batch_size > 1 or segment.samples % each == 0
    if possible and (segment.rounds > 1 or segment.samples >= segment.world_size):
        assert sorted(places(segment)) == list(range(segment.start, segment.stop))
    assert segment.dropped() == 0


@settings(max_examples=200, deadline=None)
@given(segment=SEGMENTS.filter(lambda s: s.tail is SHORT))
def test_a_short_tail_is_even_over_the_ranks(segment: Segment) -> None:
    lengths = [segment.length(index) for index in batches(segment)]
    for start in range(0, len(lengths), segment.world_size):
        round_of = lengths[start : start + segment.world_size]
        assert max(round_of) - min(round_of) <= 1
    assert lengths[: -2 * segment.world_size] == [segment.batch_size] * max(
        0, len(lengths) - 2 * segment.world_size
    )


@settings(max_examples=100, deadline=None)
@given(segment=SEGMENTS.filter(lambda s: s.tail is not SHORT))
def test_batches_are_full_where_the_tail_is_dropped_or_padded(segment: Segment) -> None:
    assert {segment.length(index) for index in batches(segment)} <= {segment.batch_size}
    each = segment.batch_size * segment.world_size
    assert max(segment.dropped(), segment.repeated()) < each
    assert min(segment.dropped(), segment.repeated()) == 0


@pytest.mark.parametrize(
    ("tail", "world_size", "lengths"),
    [
        (SHORT, 1, [4, 4, 2]),
        (DROP, 1, [4, 4]),
        (PAD, 1, [4, 4, 4]),
        (SHORT, 2, [4, 4, 1, 1]),
        (DROP, 2, [4, 4]),
        (PAD, 2, [4, 4, 4, 4]),
        (SHORT, 3, [4, 3, 3]),
        (DROP, 3, []),
        (PAD, 3, [4, 4, 4]),
    ],
)
def test_the_tail_of_ten_samples_in_batches_of_four(
    tail: TailPolicy, world_size: int, lengths: list[int]
) -> None:
    plan = RunPlan(10, 4, 1, 0, world_size, tail)
    assert [plan.batch_length(index) for index in range(plan.batches)] == lengths
    assert plan.rank_batches * world_size == plan.batches


def test_too_few_samples_for_one_a_rank_are_shared_with_the_round_before() -> None:
    segment = Segment(0, 13, 4, 3)
    assert [segment.length(index) for index in range(6)] == [3, 2, 2, 2, 2, 2]
    assert sorted(places(segment)) == list(range(13))


def test_padding_comes_from_the_beginning_and_may_go_round_more_than_once() -> None:
    assert Segment(0, 10, 4, 2, PAD).places(3) == ((2, 6),)
    assert Segment(5, 8, 4, 2, PAD).places(0) == ((5, 8), (5, 6))
    assert Segment(5, 6, 3, 2, PAD).places(1) == ((5, 6), (5, 6), (5, 6))


@settings(max_examples=200, deadline=None)
@given(segment=SEGMENTS)
def test_full_batches_come_first_and_all_have_the_full_size(segment: Segment) -> None:
    lengths = [segment.length(index) for index in batches(segment)]
    assert lengths[: segment.full] == [segment.batch_size] * segment.full
    short = lengths[segment.full :]
    assert len(short) % segment.world_size == 0, "each rank gets as many of them"
    assert len(short) <= 2 * segment.world_size
    if segment.tail is not SHORT:
        assert short == []


# What is left, cut anew


def delivered(segment: Segment, heads: int, tails: int) -> list[int]:
    """The batches that so many deals from each end deliver: short ones once all others are."""
    short = segment.first + segment.full
    full = [*range(segment.first, segment.first + min(heads, segment.full - tails))]
    return [
        *full,
        *range(short - tails, short),
        *range(short, short + heads - len(full)),
    ]


@settings(max_examples=200, deadline=None)
@given(
    segment=SEGMENTS.filter(lambda s: s.tail is SHORT and s.batch_size > 1),
    world_size=st.integers(1, 7),
    data=st.data(),
)
def test_a_segment_and_its_rest_are_the_whole(
    segment: Segment, world_size: int, data: st.DataObject
) -> None:
    heads = data.draw(st.integers(0, segment.batches))
    tails = data.draw(st.integers(0, min(segment.full, segment.batches - heads)))
    rest = segment.rest(heads, tails, world_size)
    done = delivered(segment, heads, tails)
    before = {place for index in done for place in places_of(segment, index)}
    assert before | set(places(rest)) == set(range(segment.start, segment.stop))
    if not segment.repeated():
        assert before.isdisjoint(places(rest))
    assert (rest.first, rest.position) == (segment.last, segment.position + heads + tails)
    assert rest.world_size == world_size


@pytest.mark.parametrize("tail", TailPolicy)
def test_of_a_segment_that_was_delivered_nothing_is_left(tail: TailPolicy) -> None:
    segment = Segment(0, 24, 4, 2, tail)
    for heads in range(segment.batches + 1):
        rest = segment.rest(heads, segment.batches - heads, 5)
        assert rest.batches == 0
        assert rest.samples == 0


def test_a_rest_may_be_cut_again_and_again() -> None:
    segment = Segment(0, 100, 8)
    seen: list[int] = []
    for world_size in (3, 2, 5, 1):
        for index in delivered(segment, 1, 1):
            seen += places_of(segment, index)
        segment = segment.rest(1, 1, world_size)
    assert sorted(seen + places(segment)) == list(range(100))


@settings(max_examples=200, deadline=None)
@given(
    segment=SEGMENTS.filter(lambda s: s.tail is SHORT and s.batch_size > 1),
    ranks=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    data=st.data(),
)
def test_a_rest_of_a_rest_is_still_just_what_is_left(
    segment: Segment, ranks: list[int], data: st.DataObject
) -> None:
    seen: Counter[int] = Counter()
    every = set(range(segment.start, segment.stop))
    for world_size in ranks:
        heads = data.draw(st.integers(0, segment.batches))
        tails = data.draw(st.integers(0, min(segment.full, segment.batches - heads)))
        if segment.repeated():
            return  # fewer samples than ranks
        for index in delivered(segment, heads, tails):
            seen.update(places_of(segment, index))
        rest = segment.rest(heads, tails, world_size)
        covered = Counter(p for a, b in ((rest.start, rest.stop), *rest.spare) for p in range(a, b))
        assert seen + covered == Counter(every), "each place was delivered or is left, once"
        assert rest.first == segment.last
        segment = rest


@settings(max_examples=100, deadline=None)
@given(
    segment=SEGMENTS.filter(lambda s: s.tail is SHORT and s.batch_size > 1 and s.full > 0),
    data=st.data(),
)
def test_with_as_many_ranks_what_is_left_is_cut_into_the_same_batches(
    segment: Segment, data: st.DataObject
) -> None:
    """So a run that takes over in mid-epoch delivers what the one before it would have."""
    ranks = segment.world_size
    rounds = data.draw(st.integers(0, segment.full // ranks))
    heads = data.draw(st.integers(0, rounds * ranks))
    tails = rounds * ranks - heads
    rest = segment.rest(heads, tails, ranks)
    done = set(delivered(segment, heads, tails))
    left = [segment.places(index) for index in batches(segment) if index not in done]
    assert [rest.places(index) for index in batches(rest)] == left
    assert rest.full == segment.full - rounds * ranks


@pytest.mark.parametrize("tail", [DROP, PAD])
def test_what_a_drop_left_out_is_left_and_what_a_padding_repeated_is_not(tail: TailPolicy) -> None:
    segment = Segment(0, 22, 4, 2, tail)
    assert segment.rest(1, 1, 1).samples == (14 if tail is DROP else 16)
    done = segment.rest(segment.batches, 0, 1)
    assert done.samples == (6 if tail is DROP else 0)


def test_a_rest_may_have_another_tail_policy() -> None:
    rest = Segment(0, 22, 4, 2).rest(1, 1, 1, DROP)
    assert rest.tail is DROP
    assert rest.dropped() == 2


# Samples


@settings(max_examples=20, deadline=None)
@given(
    samples=st.integers(1, 300),
    batch_size=st.integers(8, 400),
    seed=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 100),
)
def test_the_batches_of_an_epoch_hold_every_sample_once(
    samples: int, batch_size: int, seed: int, epoch: int
) -> None:
    plan = RunPlan(samples, batch_size, 1, seed)
    found = [plan.batch_samples(epoch, index) for index in range(plan.batches)]
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.arange(samples))


def test_full_batches_depend_on_seed_and_epoch_and_not_on_the_world() -> None:
    plan = RunPlan(100, 10, epochs=2, seed=1)
    wide = RunPlan(100, 10, epochs=9, seed=1, world_size=8, tail=PAD)
    np.testing.assert_array_equal(plan.batch_samples(1, 4), wide.batch_samples(1, 4))
    others = [plan.batch_samples(0, 4), RunPlan(100, 10, epochs=2, seed=2).batch_samples(1, 4)]
    for other in others:
        assert plan.batch_samples(1, 4).tolist() != other.tolist()


def test_the_samples_of_several_stretches_come_in_their_order() -> None:
    plan = RunPlan(50, 10, 1, 3)
    whole = plan.samples_at(0, ((0, 50),))
    np.testing.assert_array_equal(
        plan.samples_at(0, ((40, 50), (0, 5))), np.concatenate([whole[40:], whole[:5]])
    )


def test_a_batch_of_a_huge_dataset_costs_no_more_than_one_of_a_small_one() -> None:
    plan = RunPlan(10**12, 256, 1, 0, 8)
    found = plan.batch_samples(0, plan.batches // 2)
    assert len(np.unique(found)) == 256
    assert plan.whole.rest(10**6, 10**5, 7).batches > 0


@pytest.mark.parametrize(
    "wrong", [{"samples": -1}, {"batch_size": 0}, {"epochs": 0}, {"world_size": 0}]
)
def test_a_plan_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    (name,) = wrong
    sensible = {"samples": 10, "batch_size": 2, "epochs": 1, "seed": 0}
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        RunPlan(**sensible | wrong)


@pytest.mark.parametrize("epochs", [0, -1])
def test_a_run_has_at_least_one_epoch_or_any_number(epochs: int) -> None:
    with pytest.raises(ValueError, match="epochs must be at least 1"):
        RunPlan(10, 4, epochs, 0)
    assert RunPlan(10, 4, None, 0).has_epoch(10**6)


def test_a_run_has_its_epochs_and_no_others() -> None:
    plan = RunPlan(10, 4, 2, 0)
    assert [plan.has_epoch(number) for number in (-1, 0, 1, 2)] == [False, True, True, False]
    assert not RunPlan(10, 4, None, 0).has_epoch(-1)


def test_without_reshuffling_each_epoch_has_the_order_of_the_first() -> None:
    plan = RunPlan(50, 10, None, 3, reshuffle=False)
    shuffled = RunPlan(50, 10, None, 3)
    for index in range(plan.batches):
        first = shuffled.batch_samples(0, index).tolist()
        assert (
            plan.batch_samples(0, index).tolist() == plan.batch_samples(9, index).tolist() == first
        )
    assert shuffled.batch_samples(9, 0).tolist() != plan.batch_samples(9, 0).tolist()
