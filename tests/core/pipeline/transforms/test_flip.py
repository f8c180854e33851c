"""Flips happen as often as asked, and `explain` says to which."""

import math

import numpy as np
import pytest

from ddlp.core.pipeline.transforms.flip import Flip
from tests.core.pipeline.transforms.batches import drawn, whole


def test_flipping_mirrors_and_twice_is_not_at_all() -> None:
    views, number = whole(4, 4), np.asarray([[0.999]])
    assert Flip(p=1).apply(views, number).mirrored.all()
    assert not Flip(p=1).apply(Flip(p=1).apply(views, number), number).mirrored.any()


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_images_are_flipped_as_often_as_asked(p: float) -> None:
    mirrored = Flip(p=p).apply(whole(4, 4, 4000), drawn(4000, 1)).mirrored
    assert np.mean(mirrored) == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 4000))


def test_the_explanation_says_which_are_mirrored() -> None:
    views, numbers = whole(4, 4, 50), drawn(50, 1)
    told = [sample["mirrored"] for sample in Flip().explain(views, numbers)]
    assert told == Flip().apply(views, numbers).mirrored.tolist()
    assert len(set(told)) == 2
