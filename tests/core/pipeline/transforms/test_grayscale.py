"""Grey is Pillow's grey, as often as asked."""

import numpy as np
from PIL import Image

from ddlp.core.pipeline.transforms.grayscale import Grayscale
from tests.core.pipeline.transforms.batches import colourful, drawn


def test_grey_is_the_grey_of_pillow() -> None:
    pixels = colourful(4, 200, 100)
    grey = Grayscale().apply(pixels.copy(), drawn(4, 1))
    for before, after in zip(pixels, grey, strict=True):
        expected = np.asarray(Image.fromarray(before).convert("L"))
        for channel in range(3):
            np.testing.assert_array_equal(after[..., channel], expected)


def test_only_some_turn_grey_and_the_explanation_says_which() -> None:
    pixels, numbers = colourful(60), drawn(60, 1)
    step = Grayscale(p=0.4)
    after = step.apply(pixels.copy(), numbers)
    told = [sample["grey"] for sample in step.explain(numbers)]
    changed = (after != pixels).any(axis=(1, 2, 3)).tolist()
    assert told == changed
    assert 10 < sum(changed) < 40


def test_never_is_never() -> None:
    pixels = colourful(30)
    np.testing.assert_array_equal(Grayscale(p=0).apply(pixels.copy(), drawn(30, 1)), pixels)
