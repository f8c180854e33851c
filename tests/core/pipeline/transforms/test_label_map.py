"""Labels by the names of classes."""

import numpy as np
import pytest

from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline.transforms.label_map import LabelMap

CLASSES = ("cat", "dog", "tiger")


def test_labels_are_those_that_the_names_stand_for() -> None:
    labels = LabelMap(labels={"tiger": 7, "cat": 7, "dog": -1})
    mapped = labels.apply(np.asarray([0, 1, 2, 1]), CLASSES)
    assert mapped.dtype == np.int64
    assert mapped.tolist() == [7, -1, 7, -1]


def test_a_class_without_a_label_is_named() -> None:
    with pytest.raises(
        InvalidInput, match=r"no label for 2 of the dataset's 3 .* \('dog', 'tiger'\)"
    ):
        LabelMap(labels={"cat": 0}).apply(np.asarray([0]), CLASSES)


def test_labels_for_other_classes_do_not_matter() -> None:
    labels = LabelMap(labels={"cat": 2, "dog": 1, "tiger": 0, "fish": 9})
    assert labels.table(CLASSES).tolist() == [2, 1, 0]
