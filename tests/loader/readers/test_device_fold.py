"""The fold of memory where it lies is the fold of the batch format, and notices what that does."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.fold import fold
from ddlp.loader.readers import device_fold
from ddlp.loader.readers.device_fold import DeviceFold, fold_tensor

PAGE = 4096


def pages(count: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, count * PAGE, dtype=np.uint8)


@pytest.mark.parametrize("count", [1, 2, 7, 300])
@pytest.mark.parametrize("first_page", [0, 1, 12_345, 2**40])
def test_it_is_the_fold_of_the_format(count: int, first_page: int) -> None:
    memory = pages(count)
    assert fold_tensor(torch.from_numpy(memory), first_page) == fold(memory.view("<u8"), first_page)


@pytest.mark.parametrize("value", [0, 1, 255])
def test_words_at_the_edges_of_their_range_overflow_alike(value: int) -> None:
    memory = np.full(5 * PAGE, value, np.uint8)
    assert fold_tensor(torch.from_numpy(memory)) == fold(memory.view("<u8"))


def test_memory_is_taken_a_step_at_a_time_without_seams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_fold, "_STEP_PAGES", 4)
    for count in (3, 4, 5, 8, 13):
        memory = pages(count)
        assert fold_tensor(torch.from_numpy(memory), 2) == fold(memory.view("<u8"), 2)


def test_one_folder_takes_batches_of_any_size_and_place() -> None:
    folder = DeviceFold("cpu")
    for count, first_page in ((4, 0), (9, 0), (2, 0), (3, 5), (9, 5), (4, 0)):
        memory = pages(count, seed=count)
        assert folder(torch.from_numpy(memory), first_page) == fold(memory.view("<u8"), first_page)


def test_what_is_folded_apart_adds_up() -> None:
    memory = pages(9)
    there = fold_tensor(torch.from_numpy(memory[2 * PAGE : 6 * PAGE]), 2)
    here = fold(memory[: 2 * PAGE].view("<u8")) + fold(memory[6 * PAGE :].view("<u8"), 6)
    assert (there + here) % 2**64 == fold(memory.view("<u8"))


@settings(max_examples=200, deadline=None)
@given(bit=st.integers(0, 3 * PAGE * 8 - 1))
def test_any_flipped_bit_changes_it(bit: int) -> None:
    memory = pages(3)
    before = fold_tensor(torch.from_numpy(memory))
    memory[bit // 8] ^= 1 << bit % 8
    assert fold_tensor(torch.from_numpy(memory)) != before


@settings(max_examples=100, deadline=None)
@given(places=st.lists(st.integers(0, 3 * 512 - 1), min_size=2, max_size=2, unique=True))
def test_swapped_words_change_it(places: list[int]) -> None:
    memory = pages(3)
    words = memory.view("<u8")
    before = fold_tensor(torch.from_numpy(memory))
    words[places] = words[places[::-1]]
    assert fold_tensor(torch.from_numpy(memory)) != before


def test_swapped_pages_change_it() -> None:
    memory = pages(6)
    before = fold_tensor(torch.from_numpy(memory))
    for one in range(6):
        for other in range(one):
            rows = memory.copy().reshape(6, PAGE)
            rows[[one, other]] = rows[[other, one]]
            assert fold_tensor(torch.from_numpy(rows.reshape(-1))) != before
