"""The padded crop: every place equally often, black beyond the image."""

import numpy as np
import pytest

from ddlp.core.pipeline.transforms.pad_crop import PadCrop
from tests.core.pipeline.transforms.batches import box, drawn, frame, shown, whole


@pytest.mark.parametrize(
    ("numbers", "seen", "place"),
    [
        ([0.0, 0.0], (0, 0, 28, 28), (4, 4)),
        ([0.5, 0.5], (0, 0, 32, 32), (0, 0)),
        ([0.999, 0.0], (4, 0, 28, 28), (0, 4)),
        ([0.999, 0.999], (4, 4, 28, 28), (0, 0)),
    ],
)
def test_the_crop_lies_where_the_numbers_say(
    numbers: list[float], seen: tuple[int, ...], place: tuple[int, int]
) -> None:
    views = PadCrop(size=32).apply(whole(32, 32), np.asarray([numbers]))
    assert box(views) == seen
    assert (views.x[0], views.y[0]) == place
    assert frame(views) == (32, 32)


def test_every_place_of_the_padded_image_is_taken_equally_often() -> None:
    told = PadCrop(size=32).explain(whole(32, 32, 9000), drawn(9000, 2))
    for side in ("left", "top"):
        counts = np.bincount([int(sample[side]) for sample in told])
        assert len(counts) == 9
        assert np.abs(counts - 1000).max() < 4 * np.sqrt(1000)


def test_an_image_that_is_smaller_than_the_square_lies_whole_within_it() -> None:
    views = PadCrop(size=10, padding=1).apply(whole(5, 30, 300), drawn(300, 2))
    assert {shown(views, place)[0] for place in range(300)} == {5}
    assert set(views.x.tolist()) == set(range(1, 5))
    assert set(views.frame_width.tolist()) == set(views.frame_height.tolist()) == {10}


def test_without_a_border_it_is_a_plain_crop() -> None:
    views = PadCrop(size=8, padding=0).apply(whole(20, 10, 200), drawn(200, 2))
    assert {shown(views, place) for place in range(200)} == {(8, 8)}
    assert set(views.left.tolist()) == set(range(13))
    assert set(views.top.tolist()) == set(range(3))


def test_the_explanation_is_what_is_done() -> None:
    crop, views, numbers = PadCrop(size=8, padding=0), whole(20, 10, 50), drawn(50, 2)
    cut = crop.apply(views, numbers)
    told = crop.explain(views, numbers)
    assert [sample["left"] for sample in told] == cut.left.tolist()
    assert [sample["top"] for sample in told] == cut.top.tolist()
