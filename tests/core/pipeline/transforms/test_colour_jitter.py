"""The colour jitter: every order, factors within reach, nothing done where nothing is asked."""

from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from ddlp.core.pipeline.transforms.colour import (
    brighten,
    contrast,
    planes_of,
    put_planes,
    saturate,
)
from ddlp.core.pipeline.transforms.colour_jitter import ColourJitter
from ddlp.core.pipeline.transforms.hue import turn
from tests.core.pipeline.transforms.batches import colourful, drawn
from tests.torchvision_reference import torchvision_module

NAMES = ("brightness", "contrast", "saturation", "hue")
USUAL = ColourJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)


def by_hand(image: npt.NDArray[np.uint8], told: dict[str, Any]) -> npt.NDArray[np.uint8]:
    """What the explanation says, done in that order."""
    planes, out = planes_of(image), np.empty_like(image)
    for name in sorted(NAMES, key=lambda name: told[f"{name}_turn"]):
        if name == "hue":
            turn(planes, int(told["hue"] * 255))
        else:
            {"brightness": brighten, "contrast": contrast, "saturation": saturate}[name](
                planes, told[name]
            )
    put_planes(planes, out)
    return out


def test_the_explanation_is_what_is_done() -> None:
    pixels, numbers = colourful(40), drawn(40, 5)
    after = USUAL.apply(pixels.copy(), numbers)
    for before, image, told in zip(pixels, after, USUAL.explain(numbers), strict=True):
        np.testing.assert_array_equal(image, by_hand(before, told))


def test_factors_lie_within_reach() -> None:
    told = ColourJitter(brightness=0.2, contrast=3, hue=0.5).explain(drawn(4000, 5))
    reached = {name: (min(t[name] for t in told), max(t[name] for t in told)) for name in NAMES}
    assert reached["brightness"] == pytest.approx((0.8, 1.2), abs=1e-3)
    assert reached["contrast"] == pytest.approx((0, 4), abs=1e-2)
    assert reached["saturation"] == (1, 1)
    assert reached["hue"] == pytest.approx((-0.5, 0.5), abs=1e-3)


def test_every_order_is_taken() -> None:
    told = USUAL.explain(drawn(2400, 5))
    orders = [tuple(sample[f"{name}_turn"] for name in NAMES) for sample in told]
    counts = [orders.count(order) for order in permutations(range(4))]
    assert sum(counts) == 2400
    assert max(abs(count - 100) for count in counts) < 45


def test_nothing_asked_is_nothing_done() -> None:
    pixels = colourful(5)
    np.testing.assert_array_equal(ColourJitter().apply(pixels.copy(), drawn(5, 5)), pixels)


def test_what_is_left_out_changes_nothing() -> None:
    # Turning the hue by nothing would still round it to 8 bits.
    pixels, numbers = colourful(5), drawn(5, 5)
    after = ColourJitter(brightness=0.5).apply(pixels.copy(), numbers)
    for before, image, told in zip(
        pixels, after, ColourJitter(brightness=0.5).explain(numbers), strict=True
    ):
        expected = np.minimum(np.floor(before * np.float32(told["brightness"])), 255)
        np.testing.assert_array_equal(image, expected)


def test_a_sample_does_not_depend_on_its_company() -> None:
    pixels, numbers = colourful(8), drawn(8, 5)
    together = USUAL.apply(pixels.copy(), numbers)
    for place in range(8):
        alone = USUAL.apply(pixels[[place]].copy(), numbers[[place]])
        np.testing.assert_array_equal(alone[0], together[place])


def test_the_outcome_is_that_of_torchvision() -> None:
    functional = torchvision_module("torchvision.transforms.functional")
    change = {name: getattr(functional, f"adjust_{name}") for name in NAMES}
    x, y = np.meshgrid(np.arange(96), np.arange(64))
    picture = np.stack([x * 2, y * 3, 255 - x - y], axis=-1).astype(np.uint8)
    pixels, numbers = np.stack([picture] * 60), drawn(60, 5)
    after = USUAL.apply(pixels, numbers).astype(int)
    for ours, told in zip(after, USUAL.explain(numbers), strict=True):
        image = Image.fromarray(picture)
        for name in sorted(NAMES, key=lambda name: told[f"{name}_turn"]):
            image = change[name](image, told[name])
        # A hue that is rounded otherwise can move a level by six, and contrast can spread that.
        difference = np.abs(ours - np.asarray(image))
        assert difference.max() <= 12, told
        assert (difference > 0).mean() < 0.02, told
