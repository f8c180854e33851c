"""The algebra of views: crops of crops, black borders, mirrors, and what resampling may read."""

from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.pipeline.views import Views
from tests.core.pipeline.transforms.batches import assert_inside, box, frame, limits, shown, whole

SIDES = st.integers(1, 5000)
UNITS = st.floats(0, 1, exclude_max=True)
ALL = np.asarray([True])


def assert_same(views: Views, others: Views) -> None:
    for field in fields(Views):
        np.testing.assert_array_equal(getattr(views, field.name), getattr(others, field.name))


def test_the_whole_image_is_seen_at_its_own_size() -> None:
    views = Views.whole(np.asarray([30, 7]), np.asarray([20, 9]))
    assert len(views) == 2
    assert box(views) == (0, 0, 30, 20)
    assert shown(views, 1) == frame(views, 1) == (7, 9)
    assert limits(views, 1) == (0, 0, 7, 9)
    assert (views.x[0], views.y[0], views.mirrored[0]) == (0, 0, False)


def test_a_crop_of_a_crop_is_where_both_lead() -> None:
    views = whole(100, 80).crop(10, 20, 50, 40).crop(5, 6, 7, 8)
    assert box(views) == (15, 26, 7, 8)
    assert shown(views) == frame(views) == (7, 8)


def test_each_sample_has_its_own_crop() -> None:
    views = whole(100, 80, samples=2).crop(
        np.asarray([1, 2]), np.asarray([3, 4]), np.asarray([5, 6]), np.asarray([7, 8])
    )
    assert box(views, 0) == (1, 3, 5, 7)
    assert box(views, 1) == (2, 4, 6, 8)


def test_a_crop_after_a_resize_is_in_the_coordinates_of_what_is_seen() -> None:
    views = whole(100, 80).scaled(50, 40).crop(10, 10, 20, 20)
    assert box(views) == (20, 20, 40, 40)
    assert shown(views) == (20, 20)


def test_scaling_changes_the_size_and_not_what_is_seen() -> None:
    views = whole(100, 80).crop(10, 20, 30, 40)
    assert box(views.scaled(7, 9)) == box(views)
    assert shown(views.scaled(7, 9)) == frame(views.scaled(7, 9)) == (7, 9)


def test_crops_and_scaling_keep_the_mirror() -> None:
    mirrored = whole(10, 10).mirror(ALL)
    assert mirrored.crop(1, 1, 2, 2).mirrored.all()
    assert mirrored.scaled(5, 5).mirrored.all()


def test_mirroring_twice_is_not_at_all() -> None:
    views = whole(10, 8).padded(3).crop(0, 2, 9, 9)
    assert_same(views.mirror(ALL).mirror(ALL), views)


def test_only_the_samples_asked_for_are_mirrored() -> None:
    views = whole(10, 8, samples=3).mirror(np.asarray([True, False, True]))
    assert views.mirrored.tolist() == [True, False, True]
    assert views.mirror(np.asarray([True, True, False])).mirrored.tolist() == [False, True, True]


def test_a_crop_after_a_mirror_is_cut_from_the_mirrored_picture() -> None:
    assert box(whole(10, 8).mirror(ALL).crop(1, 2, 3, 4)) == (6, 2, 3, 4)


def test_a_mirrored_border_is_on_the_other_side() -> None:
    views = whole(4, 4).padded(2).crop(0, 0, 5, 5)
    assert (views.x[0], views.width[0]) == (2, 3)
    assert (views.mirror(ALL).x[0], views.mirror(ALL).width[0]) == (0, 3)


def test_a_border_moves_the_picture_and_shows_no_more_of_it() -> None:
    views = whole(10, 8).padded(4)
    assert box(views) == (0, 0, 10, 8)
    assert frame(views) == (18, 16)
    assert (views.x[0], views.y[0]) == (4, 4)


def test_a_crop_of_a_border_alone_shows_nothing() -> None:
    views = whole(10, 8).padded(4).crop(0, 0, 3, 16)
    assert shown(views)[0] == 0
    assert frame(views) == (3, 16)


def test_a_crop_may_reach_beyond_the_frame() -> None:
    views = whole(10, 8).crop(-2, 5, 20, 20)
    assert box(views) == (0, 5, 10, 3)
    assert (views.x[0], views.y[0]) == (2, 0)
    assert frame(views) == (20, 20)


# What resampling may read


def test_a_resized_crop_reads_nothing_outside_the_crop() -> None:
    assert limits(whole(100, 80).crop(10, 20, 30, 40).scaled(7, 9)) == (10, 20, 40, 60)


def test_a_crop_of_a_resized_image_may_read_beyond_the_crop() -> None:
    assert limits(whole(100, 80).scaled(50, 40).crop(10, 10, 20, 20)) == (0, 0, 100, 80)


def test_limits_are_the_whole_pixels_around_what_is_seen() -> None:
    views = whole(100, 100).scaled(30, 30).crop(1, 1, 10, 10).scaled(5, 5)
    assert box(views) == pytest.approx((10 / 3, 10 / 3, 100 / 3, 100 / 3))
    assert limits(views) == (3, 3, 37, 37)


def test_a_side_that_keeps_its_length_keeps_its_limits() -> None:
    views = whole(100, 80).scaled(50, 40).crop(10, 10, 20, 20)
    assert_same(views.scaled(20, 20), views)
    assert limits(views.scaled(20, 10)) == (0, 20, 100, 60)


def test_a_padded_frame_cannot_be_scaled() -> None:
    with pytest.raises(ValueError, match="padded"):
        whole(10, 8).padded(1).scaled(5, 5)


# Against the same steps on real pixels

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("crop"), *[st.integers(-6, 12)] * 2, *[st.integers(1, 14)] * 2),
        st.tuples(st.just("padded"), st.integers(0, 4)),
        st.tuples(st.just("mirror")),
    ),
    max_size=6,
)


def on_pixels(pixels: npt.NDArray[Any], step: tuple[Any, ...]) -> npt.NDArray[Any]:
    if step[0] == "mirror":
        return pixels[:, ::-1]
    if step[0] == "padded":
        return np.pad(pixels, step[1])
    left, top, width, height = step[1:]
    around = np.pad(pixels, 30)
    return around[top + 30 : top + 30 + height, left + 30 : left + 30 + width]


def on_views(views: Views, step: tuple[Any, ...]) -> Views:
    if step[0] == "mirror":
        return views.mirror(ALL)
    return getattr(views, step[0])(*step[1:])  # type: ignore[no-any-return]


def rendered(views: Views, pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    out = np.zeros((int(views.frame_height[0]), int(views.frame_width[0])), dtype=pixels.dtype)
    left, top, width, height = map(int, box(views))
    part = pixels[top : top + height, left : left + width]
    x, y = int(views.x[0]), int(views.y[0])
    out[y : y + height, x : x + width] = part[:, ::-1] if views.mirrored[0] else part
    return out


@settings(max_examples=300, deadline=None)
@given(steps=STEPS, width=st.integers(1, 9), height=st.integers(1, 9))
def test_views_show_what_the_same_steps_make_of_pixels(
    steps: list[tuple[Any, ...]], width: int, height: int
) -> None:
    pixels = source = np.arange(1, width * height + 1).reshape(height, width)
    views = whole(width, height)
    for step in steps:
        pixels, views = on_pixels(pixels, step), on_views(views, step)
    np.testing.assert_array_equal(rendered(views, source), pixels)


@settings(max_examples=100, deadline=None)
@given(width=SIDES, height=SIDES, out=st.integers(1, 300), units=st.tuples(*[UNITS] * 4))
def test_a_crop_within_what_is_seen_stays_within_the_image(
    width: int, height: int, out: int, units: tuple[float, float, float, float]
) -> None:
    seen = whole(width, height).scaled(out, out)
    crop_width, crop_height = 1 + int(units[0] * out), 1 + int(units[1] * out)
    left, top = int(units[2] * (out - crop_width)), int(units[3] * (out - crop_height))
    views = seen.crop(left, top, crop_width, crop_height)
    assert_inside(views, width, height)
    first_x, first_y, last_x, last_y = limits(views.scaled(out + 1, out + 1))
    assert 0 <= first_x < last_x <= width
    assert 0 <= first_y < last_y <= height
