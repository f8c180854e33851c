"""Resizing keeps the aspect ratio."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.pipeline.transforms.resize import Resize
from tests.core.pipeline.transforms.batches import NOTHING, box, shown, whole

SIDES = st.integers(1, 5000)


@pytest.mark.parametrize(
    ("image", "wanted"),
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
    image: tuple[int, int], wanted: tuple[int, int]
) -> None:
    views = Resize(size=256).apply(whole(*image), NOTHING)
    assert shown(views) == wanted
    assert box(views) == (0, 0, *image)
    assert Resize(size=256).output_size(image) == wanted


@settings(max_examples=100, deadline=None)
@given(width=SIDES, height=SIDES, size=st.integers(1, 512))
def test_resizing_keeps_the_aspect_ratio_to_within_a_pixel(
    width: int, height: int, size: int
) -> None:
    seen = shown(Resize(size=size).apply(whole(width, height), NOTHING))
    assert min(seen) == size
    scale = size / min(width, height)
    assert abs(seen[0] - width * scale) < 1
    assert abs(seen[1] - height * scale) < 1


def test_the_size_is_unknown_before_the_image_is() -> None:
    assert Resize(size=256).output_size(None) is None
