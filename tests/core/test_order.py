"""The epoch order is a bijection, any slice of it is cheap, and it shuffles as well as chance."""

import itertools
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.order import EpochOrder

SEEDS = st.integers(0, 2**63 - 1)
EPOCHS = st.integers(0, 100_000)


def whole(samples: int, seed: int = 0, epoch: int = 0) -> npt.NDArray[np.int64]:
    return EpochOrder(samples, seed, epoch).slice(0, samples)


@settings(max_examples=60, deadline=None)
@given(samples=st.integers(0, 3000), seed=SEEDS, epoch=EPOCHS)
def test_every_sample_has_exactly_one_place(samples: int, seed: int, epoch: int) -> None:
    np.testing.assert_array_equal(np.sort(whole(samples, seed, epoch)), np.arange(samples))


@pytest.mark.parametrize("samples", [0, 1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 257])
def test_every_sample_has_one_place_around_powers_of_two(samples: int) -> None:
    for epoch in range(3):
        assert sorted(whole(samples, 0, epoch).tolist()) == list(range(samples))


@settings(max_examples=30, deadline=None)
@given(samples=st.integers(1, 2000), seed=SEEDS, cuts=st.lists(st.integers(0, 2500), max_size=8))
def test_slices_put_together_are_the_whole(samples: int, seed: int, cuts: list[int]) -> None:
    order = EpochOrder(samples, seed, 1)
    edges = [0, *sorted(cuts), 2500]
    parts = [order.slice(start, stop) for start, stop in itertools.pairwise(edges)]
    np.testing.assert_array_equal(np.concatenate(parts), order.slice(0, samples))


def test_a_slice_past_the_end_is_cut_off() -> None:
    order = EpochOrder(10, 0, 0)
    assert len(order.slice(8, 16)) == 2
    assert len(order.slice(10, 16)) == 0


def test_nothing_of_the_size_of_the_dataset_is_computed_for_a_slice() -> None:
    order = EpochOrder(10**15, 0, 0)  # 8 petabytes, were it stored
    for start in (0, 10**9, 10**15 - 256):
        found = order.slice(start, start + 256)
        assert len(np.unique(found)) == 256
        assert found.min() >= 0
        assert found.max() < 10**15


def test_orders_differ_by_seed_and_by_epoch_and_repeat() -> None:
    orders = [whole(1000, seed, epoch) for seed in range(4) for epoch in range(4)]
    assert len({order.tobytes() for order in orders}) == 16
    np.testing.assert_array_equal(orders[0], whole(1000, 0, 0))


@pytest.fixture(scope="module")
def orders() -> npt.NDArray[np.int64]:
    """The orders of 200 epochs of 250 samples: one a row."""
    return np.stack([whole(250, 0, epoch) for epoch in range(200)])


def test_two_epochs_agree_in_as_few_places_as_chance_has_it(
    orders: npt.NDArray[np.int64],
) -> None:
    agreements = [int((a == b).sum()) for a, b in itertools.combinations(orders, 2)]
    assert np.mean(agreements) == pytest.approx(1, abs=4 / np.sqrt(len(agreements)))


def test_a_shuffle_leaves_as_many_samples_in_place_as_chance_does(
    orders: npt.NDArray[np.int64],
) -> None:
    fixed = (orders == np.arange(250)).sum(axis=1)
    assert fixed.mean() == pytest.approx(1, abs=4 / np.sqrt(200))
    assert fixed.var() == pytest.approx(1, abs=4 * np.sqrt(3 / 200))


def test_a_shuffle_has_as_many_cycles_as_chance_makes(orders: npt.NDArray[np.int64]) -> None:
    expected = sum(1 / k for k in range(1, 251))
    spread = np.sqrt(sum(1 / k - 1 / k**2 for k in range(1, 251)) / 200)
    counts = [count_cycles(order) for order in orders]
    assert np.mean(counts) == pytest.approx(expected, abs=4 * spread)


def test_every_sample_is_equally_likely_at_every_place(orders: npt.NDArray[np.int64]) -> None:
    # Places and samples in 25 groups of 10: 80 of each in each are to be expected.
    places = np.broadcast_to(np.arange(250), orders.shape)
    counts, _, _ = np.histogram2d(places.ravel(), orders.ravel(), bins=25)
    chi_square = ((counts - 80) ** 2 / 80).sum()
    freedom = 24**2
    assert abs(chi_square - freedom) < 4 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("samples", [3, 4])
def test_every_permutation_of_a_few_samples_is_equally_likely(samples: int) -> None:
    epochs = 480
    seen = Counter(tuple(whole(samples, 0, epoch).tolist()) for epoch in range(epochs))
    permutations = list(itertools.permutations(range(samples)))
    expected = epochs / len(permutations)
    chi_square = sum((seen[order] - expected) ** 2 / expected for order in permutations)
    freedom = len(permutations) - 1
    assert chi_square < freedom + 4 * np.sqrt(2 * freedom)


def count_cycles(order: npt.NDArray[np.int64]) -> int:
    following = order.tolist()
    left = set(range(len(following)))
    cycles = 0
    while left:
        cycles += 1
        here = next(iter(left))
        while here in left:
            left.remove(here)
            here = following[here]
    return cycles


def test_neighbours_in_the_dataset_are_not_neighbours_in_the_order() -> None:
    order = whole(50_000)
    for distance in (1, 2, 64, 256):
        correlation = np.corrcoef(order[distance:], order[:-distance])[0, 1]
        assert abs(correlation) < 4 / np.sqrt(50_000)
    steps = np.diff(order)
    assert (np.abs(steps) == 1).sum() < 12  # about two are to be expected


def test_classes_that_lie_together_are_mixed_in_every_batch() -> None:
    samples, classes, batch = 10_000, 10, 100
    labels = whole(samples).reshape(-1, batch) // (samples // classes)
    counts = np.stack([(labels == label).sum(axis=1) for label in range(classes)])
    # Drawn without replacement: the variance of a class's count in a batch is about 9.
    assert counts.var() == pytest.approx(batch * 0.1 * 0.9, rel=0.15)
