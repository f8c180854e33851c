"""Turns the labels of manifests and shards into class numbers.

Labels that are whole numbers throughout are class numbers; otherwise they are class names, which
are numbered in alphabetical order. Which of the two it is shows only at the end, so labels are
numbered as they come and `settle` says what becomes of those numbers.

A label that is no class is refused instead of being taken as the name of one: fractions, such as
the targets of a regression, and several labels in one.
"""

import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ddlp.core.errors import InvalidInput

MAX_CLASSES = 1_000_000
_MAX_NAME = 1000
_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?|[+-]?\d+[eE][+-]\d+")
_SEVERAL = re.compile(r"\[.*\]|\{.*\}|.*[|;].*|\d+([\s,]+\d+)+", re.DOTALL)
_ALL_THE_SAME = (
    "to take such labels as class names all the same, say --as-classes (REST and "
    "DualLoader.local: as_classes)"
)


class LabelBook:
    """The labels seen so far, numbered in order of appearance."""

    def __init__(self, *, as_classes: bool = False) -> None:
        self._as_classes = as_classes
        """Whether fractions and lists in a text are the names of classes."""
        self._numbers: dict[str, int] = {}

    def number(self, label: object, where: str = "a sample", *, is_folder: bool = False) -> int:
        """The provisional number of a label; a ValueError says why this sample cannot have one.

        A folder's name is the name of a class, whatever it looks like.
        """
        text = _text(label if is_folder or self._as_classes else _single(label, where))
        number = self._numbers.setdefault(text, len(self._numbers))
        if number >= MAX_CLASSES:
            raise InvalidInput(
                f"there are more than {MAX_CLASSES} different labels, such as {text!r}; "
                "is this the right column?"
            )
        return number

    def settle(self) -> tuple[tuple[str, ...], npt.NDArray[np.uint32]]:
        """The classes, and for each provisional number the class number it stands for."""
        texts = list(self._numbers)
        if all(text.isascii() and text.isdigit() for text in texts):
            numbers = [int(text) for text in texts]
            if max(numbers, default=0) < MAX_CLASSES:
                classes = tuple(str(number) for number in range(max(numbers, default=-1) + 1))
                return classes, np.asarray(numbers, dtype=np.uint32)
        names = sorted(texts)
        places = {name: place for place, name in enumerate(names)}
        return tuple(names), np.asarray([places[text] for text in texts], dtype=np.uint32)


def number_labels(
    path: Path,
    labels: npt.NDArray[Any],
    names: npt.NDArray[Any] | None,
    *,
    as_classes: bool = False,
) -> tuple[npt.NDArray[np.uint32], tuple[str, ...]]:
    """Class numbers and names of an array's labels; `names` are those that lie in the same file."""
    if labels.size == len(labels):
        labels = labels.reshape(-1)
    if labels.ndim != 1 or labels.dtype.kind not in "iuUS":
        raise InvalidInput(
            f"{path} has labels of type {labels.dtype} and shape {labels.shape}; expected one "
            "whole number or class name per sample, since DDLP trains on one class per sample"
        )
    if names is not None and labels.dtype.kind in "iu":
        return _named_numbers(path, labels, tuple(_plain(name) for name in names.reshape(-1)))
    values, places = np.unique(labels, return_inverse=True)
    book = LabelBook(as_classes=as_classes)
    try:
        numbers = [book.number(_plain(value), str(path)) for value in values]
    except ValueError as error:
        raise InvalidInput(f"{path} has a sample of which this is to be said: {error}") from error
    classes, renumbered = book.settle()
    return renumbered[np.asarray(numbers)[places]], classes


def _named_numbers(
    path: Path, labels: npt.NDArray[Any], names: tuple[str, ...]
) -> tuple[npt.NDArray[np.uint32], tuple[str, ...]]:
    first, last = int(labels.min()), int(labels.max())
    if first < 0 or last >= len(names) or not all(map(is_class_name, names)):
        raise InvalidInput(
            f"{path} has labels from {first} to {last}, but {len(names)} names of classes"
        )
    return labels.astype(np.uint32), names


def _plain(value: Any) -> Any:
    """A label as Python knows it."""
    return os.fsdecode(value) if isinstance(value, bytes) else value.item()


def _single(label: object, where: str) -> object:
    """A label that names one class; a whole number that is written as a fraction is one."""
    if isinstance(label, str) and _FRACTION.fullmatch(label.strip()):
        number = float(label)
        label = int(number) if number.is_integer() else number
    if isinstance(label, float) and math.isfinite(label) and not label.is_integer():
        raise InvalidInput(
            f"{where} has the label {label}, which is not a class: DDLP trains on one class per "
            "sample, and not on numbers such as the targets of a regression; give whole numbers "
            f"or class names; {_ALL_THE_SAME}"
        )
    if isinstance(label, list | tuple | dict) or (
        isinstance(label, str) and _SEVERAL.fullmatch(label.strip())
    ):
        raise InvalidInput(
            f"{where} has the label {str(label)[:80]!r}, which looks like several labels: DDLP "
            f"trains on one class per sample; give one class name or number; {_ALL_THE_SAME}"
        )
    return label


def _text(label: object) -> str:
    if isinstance(label, float) and math.isnan(label):
        label = None
    if isinstance(label, float) and math.isfinite(label):
        label = int(label) if label.is_integer() else str(label)
    if isinstance(label, bool) or not isinstance(label, int | str):
        raise ValueError("it has no label" if label is None else f"{label!r} is not a label")
    text = str(label).strip()
    if not text:
        raise ValueError("it has no label")
    if text[0] == "-" and text[1:].isdigit():
        raise ValueError(f"its label {text} is below 0")
    if len(text) > _MAX_NAME or not is_class_name(text):
        raise ValueError(f"its label {text[:40]!r} cannot be a class name")
    return text


def is_class_name(text: str) -> bool:
    """Whether a name can be stored and shown: UTF-8 without zeros."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
