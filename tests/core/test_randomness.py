"""Draws are Philox's, and depend on (seed, epoch, sample, purpose) and on nothing else."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.randomness import philox, stream_key, uniforms

# The published answers of Random123 for philox4x32-10: counter, key, result.
KNOWN_ANSWERS = [
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def ids(*numbers: int) -> npt.NDArray[np.int64]:
    return np.asarray(numbers, dtype=np.int64)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter: str, key: str, answer: str) -> None:
    c0, c1, c2, c3 = (np.asarray([word], dtype=np.uint64) for word in words(counter))
    k0, k1 = words(key)
    assert philox((c0, c1, c2, c3), (k0, k1))[0].tolist() == words(answer)


def test_philox_computes_many_counters_at_once_as_it_computes_each_alone() -> None:
    counters = np.asarray([words(counter) for counter, _, _ in KNOWN_ANSWERS], dtype=np.uint64)
    together = philox((counters[:, 0], counters[:, 1], counters[:, 2], counters[:, 3]), (7, 11))
    for row, counter in zip(together, counters, strict=True):
        c0, c1, c2, c3 = (np.asarray([word], dtype=np.uint64) for word in counter)
        np.testing.assert_array_equal(row, philox((c0, c1, c2, c3), (7, 11))[0])


@settings(max_examples=15, deadline=None)
@given(
    samples=st.lists(st.integers(0, 2**40), min_size=1, max_size=12, unique=True),
    chosen=st.data(),
    count=st.integers(1, 9),
)
def test_a_sample_draws_the_same_alone_and_in_any_batch(
    samples: list[int], chosen: st.DataObject, count: int
) -> None:
    key = stream_key(3, "0:flip")
    order = chosen.draw(st.permutations(samples))
    together = uniforms(key, 5, ids(*order), count)
    for row, sample in zip(together, order, strict=True):
        np.testing.assert_array_equal(row, uniforms(key, 5, ids(sample), count)[0])


def test_the_first_draws_do_not_depend_on_how_many_are_drawn() -> None:
    key = stream_key(0, "x")
    few, many = (uniforms(key, 0, ids(1, 2, 3), count) for count in (3, 40))
    np.testing.assert_array_equal(few, many[:, :3])


def test_draws_change_with_seed_epoch_sample_and_purpose() -> None:
    def draw(seed: int = 1, purpose: str = "0:flip", epoch: int = 2, sample: int = 3) -> float:
        return float(uniforms(stream_key(seed, purpose), epoch, ids(sample), 1)[0, 0])

    drawn = [
        draw(),
        draw(seed=2),
        draw(purpose="1:flip"),
        draw(epoch=3),
        draw(sample=4),
        draw(sample=3 + 2**32),
    ]
    assert len(set(drawn)) == len(drawn)
    assert draw() == drawn[0]


def test_seeds_and_purposes_are_not_mixed_up() -> None:
    assert stream_key(1, "1:flip") != stream_key(11, ":flip")
    assert stream_key(1, "flip") != stream_key(-1, "flip")


def test_draws_are_evenly_spread_over_zero_to_one() -> None:
    drawn = uniforms(stream_key(0, "spread"), 0, np.arange(50_000, dtype=np.int64), 4)
    assert drawn.shape == (50_000, 4)
    assert drawn.dtype == np.float64
    assert drawn.min() >= 0
    assert drawn.max() < 1
    # Four standard errors at 50,000 draws.
    assert np.abs(drawn.mean(axis=0) - 1 / 2).max() < 4 * np.sqrt(1 / 12 / 50_000)
    assert np.abs(drawn.var(axis=0) - 1 / 12).max() < 4 * np.sqrt(1 / 180 / 50_000)
    filled, _ = np.histogram(drawn, bins=100, range=(0, 1))
    assert ((filled - 2000) ** 2 / 2000).sum() < 160  # chi-square, 99 degrees: p = 1e-4


def test_the_draws_of_one_sample_are_independent_of_each_other() -> None:
    drawn = uniforms(stream_key(0, "apart"), 0, np.arange(20_000, dtype=np.int64), 6)
    correlations = np.corrcoef(drawn, rowvar=False) - np.eye(6)
    assert np.abs(correlations).max() < 4 / np.sqrt(20_000)


def test_the_draws_of_neighbouring_samples_and_epochs_are_independent() -> None:
    key = stream_key(0, "apart")
    samples = np.arange(20_000, dtype=np.int64)
    now, later = (uniforms(key, epoch, samples, 1)[:, 0] for epoch in (0, 1))
    assert abs(np.corrcoef(now, later)[0, 1]) < 4 / np.sqrt(20_000)
    assert abs(np.corrcoef(now[1:], now[:-1])[0, 1]) < 4 / np.sqrt(20_000)


def test_draws_fill_the_whole_mantissa() -> None:
    drawn = uniforms(stream_key(0, "bits"), 0, np.arange(4096, dtype=np.int64), 2)
    scaled = drawn * 2.0**53
    np.testing.assert_array_equal(scaled, np.floor(scaled))
    assert np.bitwise_or.reduce(scaled.astype(np.uint64), axis=None) == 2**53 - 1


def test_no_samples_draw_nothing() -> None:
    assert uniforms(stream_key(0, "x"), 0, ids(), 3).shape == (0, 3)
