"""Labels are class numbers if all of them are numbers, and names otherwise."""

from pathlib import Path

import numpy as np
import pytest

from ddlp.core.dataset import labels as labels_module
from ddlp.core.dataset.labels import LabelBook, number_labels
from ddlp.core.errors import InvalidInput


def settled(*given: object) -> tuple[tuple[str, ...], list[int]]:
    book = LabelBook()
    numbers = [book.number(label) for label in given]
    classes, renumbered = book.settle()
    return classes, renumbered[numbers].tolist()


def test_names_are_numbered_by_their_order() -> None:
    assert settled("dog", "cat", " dog ", "ant") == (("ant", "cat", "dog"), [2, 1, 2, 0])


@pytest.mark.parametrize("given", [(3, 0, 3), ("3", "0", "3"), (3.0, "00", 3)])
def test_whole_numbers_are_class_numbers(given: tuple[object, ...]) -> None:
    assert settled(*given) == (("0", "1", "2", "3"), [3, 0, 3])


def test_one_name_makes_names_of_all() -> None:
    assert settled(10, "2", "cat") == (("10", "2", "cat"), [0, 1, 2])


def test_numbers_too_large_for_classes_are_names() -> None:
    assert settled(8_800_123, 7) == (("7", "8800123"), [1, 0])


@pytest.mark.parametrize(
    "label", [None, "", "  ", -1, "-12", True, float("nan"), "\0", "\ud800", "x" * 2000]
)
def test_what_cannot_be_a_label_is_said(label: object) -> None:
    with pytest.raises(ValueError, match="label"):
        LabelBook().number(label)


def test_too_many_classes_are_more_likely_another_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels_module, "MAX_CLASSES", 3)
    book = LabelBook()
    for label in "abc":
        book.number(label)
    with pytest.raises(InvalidInput, match="more than 3 different labels, such as 'd'"):
        book.number("d")


@pytest.mark.parametrize("dtype", ["u1", ">i2", "<i8", "<u4"])
def test_numbers_of_any_type_are_taken_from_arrays(dtype: str) -> None:
    numbers, classes = number_labels(Path("a"), np.asarray([2, 0, 1]).astype(dtype), None)
    assert (numbers.tolist(), numbers.dtype, classes) == ([2, 0, 1], np.uint32, ("0", "1", "2"))
