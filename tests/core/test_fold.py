"""The checksum that an accelerator can take: parts add up, no change of a word goes unseen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.fold import PAGE_WORDS, Words, fold, multipliers, word_multipliers

MASK = 2**64 - 1


def words(pages: int, seed: int = 0) -> Words:
    return np.random.default_rng(seed).integers(0, 2**64, pages * PAGE_WORDS, np.uint64)


def plain(found: Words, first_page: int = 0) -> int:
    """The definition, in numbers without end."""
    step = 0x9E3779B97F4A7C15
    total = 0
    for page, part in enumerate(found.reshape(-1, PAGE_WORDS).tolist(), first_page):
        inner = sum(word * ((j * step & MASK) | 1) for j, word in enumerate(part, 1))
        total += inner * ((page * step & MASK) | 1)
    return total & MASK


@pytest.mark.parametrize("pages", [1, 2, 7])
@pytest.mark.parametrize("first_page", [0, 1, 1000])
def test_it_is_what_it_is_defined_to_be(pages: int, first_page: int) -> None:
    found = words(pages, seed=pages)
    assert fold(found, first_page) == plain(found, first_page)


def test_nothing_folds_to_nought() -> None:
    assert fold(words(0)) == 0
    assert fold(np.zeros(PAGE_WORDS, np.uint64)) == 0


@settings(max_examples=30, deadline=None)
@given(pages=st.integers(1, 12), cut=st.integers(0, 12))
def test_parts_add_up(pages: int, cut: int) -> None:
    found, cut = words(pages), min(cut, pages)
    first, second = found[: cut * PAGE_WORDS], found[cut * PAGE_WORDS :]
    assert (fold(first) + fold(second, cut)) & MASK == fold(found)


@settings(max_examples=200, deadline=None)
@given(at=st.integers(0, 3 * PAGE_WORDS - 1), flips=st.integers(1, MASK))
def test_a_change_of_one_word_is_always_seen(at: int, flips: int) -> None:
    found = words(3)
    before = fold(found)
    found[at] ^= np.uint64(flips)
    assert fold(found) != before


def test_words_and_pages_that_changed_places_are_seen() -> None:
    found = words(3)
    before = fold(found)
    swapped = found.copy()
    swapped[[5, 6]] = swapped[[6, 5]]
    assert fold(swapped) != before
    pages = found.reshape(3, PAGE_WORDS)[[1, 0, 2]].reshape(-1)
    assert fold(pages) != before


def test_multipliers_are_odd_and_differ() -> None:
    inner, outer = word_multipliers(), multipliers(0, 5000)
    assert (inner & np.uint64(1)).all()
    assert (outer & np.uint64(1)).all()
    assert len(set(inner.tolist())) == PAGE_WORDS
    assert len(set(outer.tolist())) == 5000
    np.testing.assert_array_equal(multipliers(1000, 10), outer[1000:1010])
