"""The arithmetic of colour gives Pillow's levels, and the same ones on every machine."""

import hashlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageEnhance

from ddlp.core.pipeline.transforms.colour import (
    Planes,
    brighten,
    contrast,
    luma,
    planes_of,
    put_planes,
    saturate,
)
from ddlp.core.pipeline.transforms.hue import turn

Pixels = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def colours() -> Pixels:
    """Every colour with a level of red that is a multiple of 5: all that differ in kind."""
    levels = np.arange(256, dtype=np.uint8)
    grid = np.stack(np.meshgrid(levels[::5], levels, levels, indexing="ij"), axis=-1)
    return grid.reshape(1664, 2048, 3)


def changed(image: Pixels, change: Callable[[Planes], None]) -> Pixels:
    planes, out = planes_of(image), np.empty_like(image)
    change(planes)
    put_planes(planes, out)
    return out


def test_planes_hold_what_the_image_holds(colours: Pixels) -> None:
    np.testing.assert_array_equal(changed(colours, lambda planes: None), colours)


def test_grey_is_the_grey_of_pillow(colours: Pixels) -> None:
    expected = np.asarray(Image.fromarray(colours).convert("L"))
    np.testing.assert_array_equal(luma(planes_of(colours)).reshape(expected.shape), expected)


@pytest.mark.parametrize("factor", [0.0, 0.37, 1.0, 1.61])
@pytest.mark.parametrize(
    ("change", "enhance"),
    [
        (brighten, ImageEnhance.Brightness),
        (contrast, ImageEnhance.Contrast),
        (saturate, ImageEnhance.Color),
    ],
)
def test_blending_is_the_blending_of_pillow(
    colours: Pixels,
    change: Callable[[Planes, float], None],
    enhance: type[ImageEnhance.Brightness],
    factor: float,
) -> None:
    ours = changed(colours, lambda planes: change(planes, factor))
    theirs = np.asarray(enhance(Image.fromarray(colours)).enhance(factor))
    # Pillow may be compiled with fused multiplications, and is then off by one here and there.
    difference = np.maximum(ours, theirs) - np.minimum(ours, theirs)
    assert difference.max() <= 1
    assert (difference > 0).mean() < 1e-3


@pytest.mark.parametrize("shift", [-127, 0, 1, 76])
def test_turning_the_hue_is_what_pillow_does(colours: Pixels, shift: int) -> None:
    hue, saturation, value = Image.fromarray(colours).convert("HSV").split()
    turned = Image.fromarray(np.asarray(hue) + np.uint8(shift % 256))
    theirs = np.asarray(Image.merge("HSV", (turned, saturation, value)).convert("RGB"))
    ours = changed(colours, lambda planes: turn(planes, shift))
    # Pillow rounds a hue that lies exactly on a step up or down, as its floats happen to fall.
    difference = np.maximum(ours, theirs) - np.minimum(ours, theirs)
    assert difference.max() <= 6
    assert (difference > 0).mean() < 2e-3


def test_grey_has_no_hue_to_turn() -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    np.testing.assert_array_equal(changed(levels, lambda planes: turn(planes, 100)), levels)


@pytest.mark.parametrize(
    ("shift", "expected"), [(0, (255, 0, 0)), (85, (0, 255, 0)), (170, (0, 0, 255))]
)
def test_red_turns_to_green_and_blue(shift: int, expected: tuple[int, int, int]) -> None:
    red = np.asarray([[[255, 0, 0]]], dtype=np.uint8)
    assert tuple(changed(red, lambda planes: turn(planes, shift))[0, 0].tolist()) == expected


def test_the_mean_that_contrast_blends_with_is_rounded() -> None:
    image = np.asarray([[[10, 10, 10], [11, 11, 11]]], dtype=np.uint8)
    assert set(changed(image, lambda planes: contrast(planes, 0.0)).ravel().tolist()) == {11}


KNOWN = "ae2376b5e17a9b4f8b99526443abf0c8b3a81dcd2dbc4208abab2b7c6c97b877"


def test_the_levels_are_the_same_on_every_machine(colours: Pixels) -> None:
    # A new value here means that this machine, or this release, makes other bytes than others.
    image = colours[::16, ::16]

    def all_of_them(planes: Planes) -> None:
        brighten(planes, 1.13)
        contrast(planes, 0.71)
        saturate(planes, 1.37)
        turn(planes, 23)

    assert hashlib.sha256(changed(image, all_of_them).tobytes()).hexdigest() == KNOWN
