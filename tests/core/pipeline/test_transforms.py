"""Transforms map views to views: the algebra of views, and each transform's geometry."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.pipeline.transforms.centre_crop import CentreCrop
from ddlp.core.pipeline.transforms.flip import Flip
from ddlp.core.pipeline.transforms.random_resized_crop import (
    RandomResizedCrop,
    portable_exp,
    portable_log,
)
from ddlp.core.pipeline.transforms.resize import Resize
from ddlp.core.pipeline.view import View
from ddlp.core.randomness import stream_key, uniforms

SIDES = st.integers(1, 5000)
UNITS = st.floats(0, 1, exclude_max=True)


def drawn(samples: int, count: int, purpose: str = "test") -> list[list[float]]:
    rows = uniforms(stream_key(0, purpose), 0, np.arange(samples, dtype=np.int64), count)
    return [row.tolist() for row in rows]


def box(view: View) -> tuple[float, float, float, float]:
    return view.left, view.top, view.box_width, view.box_height


# Views


def test_the_whole_image_is_seen_at_its_own_size() -> None:
    assert View.whole(30, 20) == View(0, 0, 30, 20, 30, 20, mirrored=False)


def test_a_crop_of_a_crop_is_where_both_lead() -> None:
    view = View.whole(100, 80).crop(10, 20, 50, 40).crop(5, 6, 7, 8)
    assert view == View(15, 26, 7, 8, 7, 8)


def test_a_crop_after_a_resize_is_in_the_coordinates_of_what_is_seen() -> None:
    view = View.whole(100, 80).scaled(50, 40).crop(10, 10, 20, 20)
    assert box(view) == (20, 20, 40, 40)
    assert (view.width, view.height) == (20, 20)


def test_scaling_changes_the_size_and_not_what_is_seen() -> None:
    view = View.whole(100, 80).crop(10, 20, 30, 40)
    assert box(view.scaled(7, 9)) == box(view)
    assert (view.scaled(7, 9).width, view.scaled(7, 9).height) == (7, 9)
    assert view.scaled(7, 9).scaled(30, 40) == view


def test_crops_and_scaling_keep_the_mirror() -> None:
    mirrored = replace(View.whole(10, 10), mirrored=True)
    assert mirrored.crop(1, 1, 2, 2).mirrored
    assert mirrored.scaled(5, 5).mirrored


@settings(max_examples=100, deadline=None)
@given(width=SIDES, height=SIDES, out=st.integers(1, 300), units=st.tuples(*[UNITS] * 4))
def test_a_crop_within_what_is_seen_stays_within_the_image(
    width: int, height: int, out: int, units: tuple[float, float, float, float]
) -> None:
    seen = View.whole(width, height).scaled(out, out)
    crop_width, crop_height = units[0] * out, units[1] * out
    view = seen.crop(
        units[2] * (out - crop_width), units[3] * (out - crop_height), crop_width, crop_height
    )
    assert_inside(view, width, height)


def assert_inside(view: View, width: int, height: int) -> None:
    assert view.left >= 0
    assert view.top >= 0
    assert view.left + view.box_width <= width * (1 + 1e-12)
    assert view.top + view.box_height <= height * (1 + 1e-12)


# Resize and centre crop


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        ((500, 300), (426, 256)),  # 500 · 256 / 300 = 426.7
        ((300, 500), (256, 426)),
        ((333, 333), (256, 256)),
        ((257, 255), (258, 256)),
        ((1, 1), (256, 256)),
        ((3, 1000), (256, 85333)),
        ((1000, 1), (256_000, 256)),
    ],
)
def test_resizing_fits_the_short_side_and_rounds_the_long_one_down(
    image: tuple[int, int], shown: tuple[int, int]
) -> None:
    view = Resize(size=256).apply(View.whole(*image), [])
    assert (view.width, view.height) == shown
    assert box(view) == (0, 0, *image)


@settings(max_examples=100, deadline=None)
@given(width=SIDES, height=SIDES, size=st.integers(1, 512))
def test_resizing_keeps_the_aspect_ratio_to_within_a_pixel(
    width: int, height: int, size: int
) -> None:
    view = Resize(size=size).apply(View.whole(width, height), [])
    assert min(view.width, view.height) == size
    scale = size / min(width, height)
    assert abs(view.width - width * scale) < 1
    assert abs(view.height - height * scale) < 1


@pytest.mark.parametrize(
    ("image", "place"),
    [
        ((10, 10), (3, 3, 4, 4)),
        ((11, 10), (3, 3, 4, 4)),  # what is left over is on the right
        ((10, 13), (3, 4, 4, 4)),
        ((4, 4), (0, 0, 4, 4)),
        ((5, 4), (0, 0, 4, 4)),
    ],
)
def test_a_centre_crop_is_in_the_middle_at_whole_pixels(
    image: tuple[int, int], place: tuple[int, int, int, int]
) -> None:
    view = CentreCrop(size=4).apply(View.whole(*image), [])
    assert box(view) == place
    assert (view.width, view.height) == (4, 4)


@pytest.mark.parametrize(
    ("image", "place"), [((2, 2), (0, 0, 2, 2)), ((3, 10), (0, 3, 3, 3)), ((1, 9), (0, 4, 1, 1))]
)
def test_an_image_that_is_too_small_for_a_centre_crop_is_enlarged(
    image: tuple[int, int], place: tuple[int, int, int, int]
) -> None:
    view = CentreCrop(size=4).apply(View.whole(*image), [])
    assert box(view) == place
    assert (view.width, view.height) == (4, 4)


@settings(max_examples=100, deadline=None)
@given(width=SIDES, height=SIDES)
def test_resize_then_centre_crop_is_a_square_in_the_middle(width: int, height: int) -> None:
    view = CentreCrop(size=224).apply(Resize(size=256).apply(View.whole(width, height), []), [])
    assert (view.width, view.height) == (224, 224)
    assert_inside(view, width, height)
    short = min(width, height)
    # Nearly square in the source, and at most one shown pixel off the middle.
    assert view.box_width == pytest.approx(short * 224 / 256, rel=1 / 224)
    assert view.box_height == pytest.approx(short * 224 / 256, rel=1 / 224)
    assert view.left + view.box_width / 2 == pytest.approx(width / 2, abs=short / 256)
    assert view.top + view.box_height / 2 == pytest.approx(height / 2, abs=short / 256)


# Flip


def test_flipping_mirrors_and_twice_is_not_at_all() -> None:
    view = View.whole(4, 4)
    flip = Flip(p=1)
    assert flip.apply(view, [0.999]).mirrored
    assert flip.apply(flip.apply(view, [0.5]), [0.5]) == view


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_images_are_flipped_as_often_as_asked(p: float) -> None:
    flipped = [Flip(p=p).apply(View.whole(4, 4), row).mirrored for row in drawn(4000, 1)]
    assert np.mean(flipped) == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 4000))


# Random resized crop


def test_the_portable_exponential_is_the_exponential() -> None:
    for x in np.linspace(-2, 2, 401).tolist():
        assert portable_exp(x) == pytest.approx(math.exp(x), rel=1e-15)


def test_the_portable_logarithm_is_the_logarithm() -> None:
    for x in np.linspace(1, 4, 301).tolist():
        assert portable_log(x) == pytest.approx(math.log(x), rel=1e-15)


def crops(crop: RandomResizedCrop, width: int, height: int, samples: int) -> list[View]:
    return [crop.apply(View.whole(width, height), row) for row in drawn(samples, crop.draws)]


def test_area_and_log_aspect_ratio_of_crops_are_uniform() -> None:
    # Shares up to a half always fit a large square: no attempt fails and nothing is skewed.
    crop = RandomResizedCrop(size=8, min_area=0.1, max_area=0.5)
    views = crops(crop, 4000, 4000, 4000)
    areas = np.asarray([view.box_width * view.box_height / 4000**2 for view in views])
    ratios = np.asarray([math.log(view.box_width / view.box_height) for view in views])
    assert_uniform(areas, 0.1, 0.5)
    assert_uniform(ratios, -math.log(4 / 3), math.log(4 / 3))
    assert abs(np.corrcoef(areas, ratios)[0, 1]) < 4 / math.sqrt(4000)


def test_the_place_of_crops_is_uniform() -> None:
    crop = RandomResizedCrop(size=8, min_area=0.1, max_area=0.5)
    views = crops(crop, 4000, 3000, 4000)
    across = np.asarray([view.left / (4000 - view.box_width) for view in views])
    down = np.asarray([view.top / (3000 - view.box_height) for view in views])
    assert_uniform(across, 0, 1)
    assert_uniform(down, 0, 1)
    assert abs(np.corrcoef(across, down)[0, 1]) < 4 / math.sqrt(4000)


def assert_uniform(values: np.ndarray, low: float, high: float) -> None:
    """Kolmogorov's distance; for n values chance exceeds 1.95 / √n once in a thousand times."""
    scaled = np.sort((values - low) / (high - low))
    distance = np.abs(scaled - np.linspace(0, 1, len(scaled))).max()
    assert distance < 1.95 / math.sqrt(len(scaled)) + 1e-3


def test_a_crop_may_begin_at_every_pixel_that_leaves_room_for_it() -> None:
    crop = RandomResizedCrop(size=8, min_area=0.25, max_area=0.25, max_stretch=1)
    views = crops(crop, 8, 8, 400)
    assert {view.left for view in views} == set(range(5))
    assert {view.top for view in views} == set(range(5))


@settings(max_examples=300, deadline=None)
@given(
    width=SIDES,
    height=SIDES,
    units=st.tuples(*[UNITS] * 4),
    low=st.floats(0.001, 1),
    stretch=st.floats(1, 4),
)
def test_a_crop_is_always_inside_the_image(
    width: int, height: int, units: tuple[float, ...], low: float, stretch: float
) -> None:
    crop = RandomResizedCrop(size=224, min_area=low, max_stretch=stretch)
    view = crop.apply(View.whole(width, height), units * 10)
    assert view.left >= 0
    assert view.top >= 0
    assert view.box_width >= 1
    assert view.box_height >= 1
    assert view.left + view.box_width <= width
    assert view.top + view.box_height <= height
    assert box(view) == tuple(map(int, box(view))), "crops are at whole pixels"
    assert (view.width, view.height) == (224, 224)


@pytest.mark.parametrize("edge", [0.0, np.nextafter(1, 0)])
@pytest.mark.parametrize("image", [(1, 1), (2, 1), (1, 7), (640, 480)])
def test_the_extreme_draws_are_inside_too(image: tuple[int, int], edge: float) -> None:
    view = RandomResizedCrop(size=8).apply(View.whole(*image), [float(edge)] * 40)
    assert_inside(view, *image)


def middle(view: View) -> tuple[float, float]:
    return view.left + view.box_width / 2, view.top + view.box_height / 2


@pytest.mark.parametrize(("image", "shown"), [((3000, 30), (40, 30)), ((30, 3000), (30, 40))])
def test_where_nothing_fits_the_largest_allowed_rectangle_in_the_middle_is_taken(
    image: tuple[int, int], shown: tuple[int, int]
) -> None:
    crop = RandomResizedCrop(size=8, min_area=0.5)
    view = crop.apply(View.whole(*image), drawn(1, crop.draws)[0])
    assert (view.box_width, view.box_height) == shown
    assert middle(view) == (image[0] / 2, image[1] / 2)


def test_the_next_attempt_is_made_where_the_first_does_not_fit() -> None:
    crop = RandomResizedCrop(size=8)
    too_wide, fits = [0.99, 0.99, 0.0, 0.0], [0.0, 0.5, 0.0, 0.0]
    view = crop.apply(View.whole(1000, 1000), too_wide + fits + [0.0] * 32)
    assert box(view) == (0, 0, round(math.sqrt(0.08) * 1000), round(math.sqrt(0.08) * 1000))


def test_a_whole_square_can_be_taken() -> None:
    crop = RandomResizedCrop(size=8, min_area=1, max_stretch=1)
    for image in [(7, 7), (640, 640)]:
        assert box(crop.apply(View.whole(*image), drawn(1, 40)[0])) == (0, 0, *image)
