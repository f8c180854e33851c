"""The centre crop is in the middle, and fills its square."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.pipeline.transforms.centre_crop import CentreCrop
from ddlp.core.pipeline.transforms.resize import Resize
from tests.core.pipeline.transforms.batches import (
    NOTHING,
    assert_inside,
    box,
    limits,
    shown,
    whole,
)

SIDES = st.integers(1, 5000)


@pytest.mark.parametrize(
    ("image", "place"),
    [
        ((10, 10), (3, 3, 4, 4)),
        ((11, 10), (4, 3, 4, 4)),  # 3.5 is rounded to the even number, as torchvision does
        ((10, 13), (3, 4, 4, 4)),
        ((4, 4), (0, 0, 4, 4)),
        ((5, 4), (0, 0, 4, 4)),
    ],
)
def test_a_centre_crop_is_in_the_middle_at_whole_pixels(
    image: tuple[int, int], place: tuple[int, int, int, int]
) -> None:
    views = CentreCrop(size=4).apply(whole(*image), NOTHING)
    assert box(views) == place
    assert shown(views) == (4, 4)


@pytest.mark.parametrize(
    ("image", "place"), [((2, 2), (0, 0, 2, 2)), ((3, 10), (0, 4, 3, 3)), ((1, 9), (0, 4, 1, 1))]
)
def test_an_image_that_is_too_small_for_a_centre_crop_is_enlarged(
    image: tuple[int, int], place: tuple[int, int, int, int]
) -> None:
    views = CentreCrop(size=4).apply(whole(*image), NOTHING)
    assert box(views) == place
    assert shown(views) == (4, 4)


def test_what_is_not_enlarged_may_read_beyond_the_crop() -> None:
    resized = Resize(size=8).apply(whole(100, 50), NOTHING)
    assert limits(CentreCrop(size=4).apply(resized, NOTHING)) == (0, 0, 100, 50)
    assert limits(CentreCrop(size=9).apply(resized, NOTHING)) == (25, 0, 75, 50)


@settings(max_examples=100, deadline=None)
@given(width=SIDES, height=SIDES)
def test_resize_then_centre_crop_is_a_square_in_the_middle(width: int, height: int) -> None:
    resized = Resize(size=256).apply(whole(width, height), NOTHING)
    views = CentreCrop(size=224).apply(resized, NOTHING)
    assert shown(views) == (224, 224)
    assert_inside(views, width, height)
    short = min(width, height)
    left, top, box_width, box_height = box(views)
    # Nearly square in the source, and at most one shown pixel off the middle.
    assert box_width == pytest.approx(short * 224 / 256, rel=1 / 224)
    assert box_height == pytest.approx(short * 224 / 256, rel=1 / 224)
    assert left + box_width / 2 == pytest.approx(width / 2, abs=short / 256)
    assert top + box_height / 2 == pytest.approx(height / 2, abs=short / 256)
