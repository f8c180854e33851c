"""The epoch order is a bijection, any slice of it is cheap, and it shuffles as well as chance."""

import itertools
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable

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


def test_a_slice_of_a_billion_samples_takes_no_more_memory_than_one_of_a_thousand() -> None:
    small, large = (peak_bytes(EpochOrder(samples, 0, 0)) for samples in (10**3, 10**9))
    assert large < small + 20_000
    assert sys.getsizeof(EpochOrder(10**9, 0, 0)) == sys.getsizeof(EpochOrder(10**3, 0, 0))


def peak_bytes(order: EpochOrder) -> int:
    """What a slice from the middle takes, beyond what stays from an earlier one."""
    middle = order.samples // 2
    order.slice(middle, middle + 256)
    tracemalloc.start()
    try:
        order.slice(middle, middle + 256)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_orders_differ_by_seed_and_by_epoch_and_repeat() -> None:
    orders = [whole(1000, seed, epoch) for seed in range(4) for epoch in range(4)]
    assert len({order.tobytes() for order in orders}) == 16
    np.testing.assert_array_equal(orders[0], whole(1000, 0, 0))


def test_an_order_is_the_same_in_every_release() -> None:
    # New values here mean that runs of older releases cannot be repeated any more.
    assert EpochOrder(1000, 7, 3).slice(0, 6).tolist() == [612, 128, 801, 371, 678, 896]
    large = EpochOrder(10**9, 7, 3).slice(10**8, 10**8 + 3)
    assert large.tolist() == [641155387, 178290992, 719915941]


EPOCHS_SEEN = 200
Counts = npt.NDArray[np.int64]


@pytest.fixture(scope="module", params=[250, 400], ids=["8 bits", "9 bits"])
def orders(request: pytest.FixtureRequest) -> npt.NDArray[np.int64]:
    """The orders of many epochs, one a row; the network's halves are even, then uneven."""
    return np.stack([whole(request.param, 0, epoch) for epoch in range(EPOCHS_SEEN)])


def chi_square(counts: Counts) -> float:
    """How far counts that should be alike are from being so."""
    expected = counts.mean()
    return float(((counts - expected) ** 2 / expected).sum())


def as_chance_has_it(freedom: int) -> object:
    """The chi-squares of this many free counts, to four standard deviations."""
    return pytest.approx(freedom, abs=4 * np.sqrt(2 * freedom))


def test_two_epochs_agree_in_as_few_places_as_chance_has_it(
    orders: npt.NDArray[np.int64],
) -> None:
    agreements = [int((a == b).sum()) for a, b in itertools.combinations(orders, 2)]
    assert np.mean(agreements) == pytest.approx(1, abs=4 / np.sqrt(len(agreements)))


def test_a_shuffle_leaves_as_many_samples_in_place_as_chance_does(
    orders: npt.NDArray[np.int64],
) -> None:
    fixed = (orders == np.arange(orders.shape[1])).sum(axis=1)
    assert fixed.mean() == pytest.approx(1, abs=4 / np.sqrt(EPOCHS_SEEN))
    assert fixed.var() == pytest.approx(1, abs=4 * np.sqrt(3 / EPOCHS_SEEN))


def test_a_shuffle_has_as_many_cycles_as_chance_makes(orders: npt.NDArray[np.int64]) -> None:
    lengths = range(1, orders.shape[1] + 1)
    expected = sum(1 / k for k in lengths)
    spread = np.sqrt(sum(1 / k - 1 / k**2 for k in lengths) / EPOCHS_SEEN)
    counts = [count_cycles(order) for order in orders]
    assert np.mean(counts) == pytest.approx(expected, abs=4 * spread)


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


def test_every_sample_is_equally_likely_at_every_place(orders: npt.NDArray[np.int64]) -> None:
    # Places and samples in 25 groups each: every row and every column adds up by itself.
    places = np.broadcast_to(np.arange(orders.shape[1]), orders.shape)
    counts, _, _ = np.histogram2d(places.ravel(), orders.ravel(), bins=25)
    assert chi_square(counts.astype(np.int64)) == as_chance_has_it(freedom=24**2)


def test_the_step_from_one_sample_to_the_next_may_be_any(orders: npt.NDArray[np.int64]) -> None:
    samples = orders.shape[1]
    steps = np.diff(orders, axis=1) % samples
    counts = np.bincount(steps.ravel(), minlength=samples)
    assert counts[0] == 0
    assert chi_square(counts[1:]) == as_chance_has_it(freedom=samples - 2)


@pytest.mark.parametrize("samples", [256, 512])
def test_places_that_differ_in_one_bit_hold_samples_that_differ_in_any(samples: int) -> None:
    # The weak spot of a network with too few rounds, or with rounds that mix too little.
    found = np.stack([whole(samples, 0, epoch) for epoch in range(100)])
    places = np.arange(samples)
    for bit in 1 << np.arange(samples.bit_length() - 1):
        zero = places[places & bit == 0]
        differences = found[:, zero] ^ found[:, zero | bit]
        counts = np.bincount(differences.ravel(), minlength=samples)
        assert chi_square(counts[1:]) == as_chance_has_it(freedom=samples - 2)


@pytest.mark.parametrize(("samples", "epochs"), [(2, 300), (3, 1200), (4, 2400)])
def test_every_permutation_of_a_few_samples_is_equally_likely(samples: int, epochs: int) -> None:
    seen = Counter(tuple(whole(samples, 0, epoch).tolist()) for epoch in range(epochs))
    permutations = list(itertools.permutations(range(samples)))
    counts = np.asarray([seen[permutation] for permutation in permutations])
    assert chi_square(counts) == as_chance_has_it(freedom=len(permutations) - 1)


@pytest.mark.parametrize("samples", range(2, 9))
def test_each_of_a_few_samples_is_equally_likely_at_every_place(samples: int) -> None:
    orders = np.stack([whole(samples, 0, epoch) for epoch in range(600)])
    assert_places_are_even(orders)


def test_seeds_shuffle_as_well_as_epochs_do() -> None:
    assert_places_are_even(np.stack([whole(8, seed, 0) for seed in range(600)]))


def assert_places_are_even(orders: npt.NDArray[np.int64]) -> None:
    samples = orders.shape[1]
    counts = np.stack([np.bincount(place, minlength=samples) for place in orders.T])
    # Rows and columns add up by themselves, which leaves this share of the spread.
    share = (samples - 1) / samples
    assert chi_square(counts) * share == as_chance_has_it(freedom=(samples - 1) ** 2)


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


# Beside true permutations

Order = npt.NDArray[np.int64]
SHUFFLED, SHUFFLES, BATCH = 2000, 150, 50


def serial_correlation(order: Order) -> float:
    return float(np.corrcoef(order[1:], order[:-1])[0, 1])


def mean_displacement(order: Order) -> float:
    return float(np.abs(order - np.arange(len(order))).mean())


def ascents(order: Order) -> float:
    return float((np.diff(order) > 0).sum())


def largest_share_of_a_class(order: Order) -> float:
    """Of ten classes that lie together: the most of one that a batch holds."""
    labels = order.reshape(-1, BATCH) // (len(order) // 10)
    return float(max(np.bincount(batch, minlength=10).max() for batch in labels))


def spread_of_classes(order: Order) -> float:
    labels = order.reshape(-1, BATCH) // (len(order) // 10)
    return float(np.stack([np.bincount(batch, minlength=10) for batch in labels]).var())


def spread_of_halves(order: Order) -> float:
    """How far the samples of a stretch of the order lie apart in the dataset."""
    return float(np.sort(order[: len(order) // 2]).std())


@pytest.mark.parametrize(
    "statistic",
    [
        serial_correlation,
        mean_displacement,
        ascents,
        largest_share_of_a_class,
        spread_of_classes,
        spread_of_halves,
    ],
)
def test_a_shuffle_looks_like_a_true_permutation(statistic: Callable[[Order], float]) -> None:
    generator = np.random.default_rng(0)
    ours = np.asarray([statistic(whole(SHUFFLED, seed, seed % 7)) for seed in range(SHUFFLES)])
    true = np.asarray([statistic(generator.permutation(SHUFFLED)) for _ in range(SHUFFLES)])
    error = np.sqrt((ours.var() + true.var()) / SHUFFLES)
    assert ours.mean() == pytest.approx(true.mean(), abs=4 * error)
    assert 0.5 < ours.std() / true.std() < 2
