"""The random resized crop: uniform area, log aspect ratio and place; always inside the image."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.pipeline.transforms.random_resized_crop import (
    RandomResizedCrop,
    portable_exp,
    portable_log,
)
from ddlp.core.pipeline.views import Views
from tests.core.pipeline.transforms.batches import (
    assert_inside,
    box,
    drawn,
    limits,
    shown,
    whole,
)

SIDES = st.integers(1, 5000)
UNITS = st.floats(0, 1, exclude_max=True)


def test_the_portable_exponential_is_the_exponential() -> None:
    x = np.linspace(-2, 2, 401)
    np.testing.assert_allclose(portable_exp(x), np.exp(x), rtol=4e-15)


def test_the_portable_logarithm_is_the_logarithm() -> None:
    for x in np.linspace(1, 4, 301).tolist():
        assert portable_log(x) == pytest.approx(math.log(x), rel=1e-15)


def crops(crop: RandomResizedCrop, width: int, height: int, samples: int) -> Views:
    return crop.apply(whole(width, height, samples), drawn(samples, crop.draws))


def test_area_and_log_aspect_ratio_of_crops_are_uniform() -> None:
    # Shares up to a half always fit a large square: no attempt fails and nothing is skewed.
    views = crops(RandomResizedCrop(size=8, min_area=0.1, max_area=0.5), 4000, 4000, 4000)
    areas = views.box_width * views.box_height / 4000**2
    ratios = np.log(views.box_width / views.box_height)
    assert_uniform(areas, 0.1, 0.5)
    assert_uniform(ratios, -math.log(4 / 3), math.log(4 / 3))
    assert abs(np.corrcoef(areas, ratios)[0, 1]) < 4 / math.sqrt(4000)


def test_the_place_of_crops_is_uniform() -> None:
    views = crops(RandomResizedCrop(size=8, min_area=0.1, max_area=0.5), 4000, 3000, 4000)
    across = views.left / (4000 - views.box_width)
    down = views.top / (3000 - views.box_height)
    assert_uniform(across, 0, 1)
    assert_uniform(down, 0, 1)
    assert abs(np.corrcoef(across, down)[0, 1]) < 4 / math.sqrt(4000)


def assert_uniform(values: npt.NDArray[np.float64], low: float, high: float) -> None:
    """Kolmogorov's distance; for n values chance exceeds 1.95 / √n once in a thousand times."""
    scaled = np.sort((values - low) / (high - low))
    distance = np.abs(scaled - np.linspace(0, 1, len(scaled))).max()
    assert distance < 1.95 / math.sqrt(len(scaled)) + 1e-3


def test_a_crop_may_begin_at_every_pixel_that_leaves_room_for_it() -> None:
    crop = RandomResizedCrop(size=8, min_area=0.25, max_area=0.25, max_stretch=1)
    views = crops(crop, 8, 8, 400)
    assert set(views.left.tolist()) == set(views.top.tolist()) == set(range(5))


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
    views = crop.apply(whole(width, height), np.asarray([units * 10]))
    left, top, box_width, box_height = box(views)
    assert left >= 0
    assert top >= 0
    assert box_width >= 1
    assert box_height >= 1
    assert left + box_width <= width
    assert top + box_height <= height
    assert box(views) == tuple(map(int, box(views))), "crops are at whole pixels"
    assert shown(views) == (224, 224)


@pytest.mark.parametrize("edge", [0.0, np.nextafter(1, 0)])
@pytest.mark.parametrize("image", [(1, 1), (2, 1), (1, 7), (640, 480)])
def test_the_extreme_draws_are_inside_too(image: tuple[int, int], edge: float) -> None:
    views = RandomResizedCrop(size=8).apply(whole(*image), np.full((1, 40), edge))
    assert_inside(views, *image)


@pytest.mark.parametrize(("image", "seen"), [((3000, 30), (40, 30)), ((30, 3000), (30, 40))])
def test_where_nothing_fits_the_largest_allowed_rectangle_in_the_middle_is_taken(
    image: tuple[int, int], seen: tuple[int, int]
) -> None:
    views = crops(RandomResizedCrop(size=8, min_area=0.5), *image, 1)
    left, top, width, height = box(views)
    assert (width, height) == seen
    assert (left + width / 2, top + height / 2) == (image[0] / 2, image[1] / 2)


def test_the_next_attempt_is_made_where_the_first_does_not_fit() -> None:
    too_wide, fits = [0.99, 0.99, 0.0, 0.0], [0.0, 0.5, 0.0, 0.0]
    numbers = np.asarray([too_wide + fits + [0.0] * 32])
    views = RandomResizedCrop(size=8).apply(whole(1000, 1000), numbers)
    side = round(math.sqrt(0.08) * 1000)
    assert box(views) == (0, 0, side, side)


def test_a_whole_square_can_be_taken() -> None:
    crop = RandomResizedCrop(size=8, min_area=1, max_stretch=1)
    for image in [(7, 7), (640, 640)]:
        assert box(crops(crop, *image, 1)) == (0, 0, *image)


def test_samples_do_not_depend_on_their_company() -> None:
    crop, numbers = RandomResizedCrop(size=8), drawn(20, 40)
    widths, heights = np.arange(20) * 17 + 5, np.arange(20) * 7 + 90
    together = crop.apply(Views.whole(widths, heights), numbers)
    for place in range(20):
        alone = crop.apply(whole(int(widths[place]), int(heights[place])), numbers[[place]])
        assert box(alone) == box(together, place)
        assert limits(alone) == limits(together, place)


KNOWN = [(329, 86, 244, 236), (286, 204, 291, 249), (144, 85, 254, 291)]


def test_the_crops_are_the_same_in_every_release() -> None:
    # New values here mean that runs of older releases cannot be repeated any more.
    views = crops(RandomResizedCrop(size=8), 640, 480, 3)
    assert [box(views, place) for place in range(3)] == KNOWN


def test_the_explanation_is_what_is_done() -> None:
    crop, views, numbers = RandomResizedCrop(size=8), whole(300, 200, 30), drawn(30, 40)
    cut = crop.apply(views, numbers)
    for place, told in enumerate(crop.explain(views, numbers)):
        assert (told["left"], told["top"], told["width"], told["height"]) == box(cut, place)
