"""A view is what is really shown: cut out of the picture by it, one gets the sample."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageOps

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline import Pipeline, PipelineSpec
from ddlp.core.pipeline.stages import Stage
from ddlp.core.pipeline.transforms import PixelTransform, Seen
from ddlp.core.pipeline.transforms.view import View
from ddlp.core.pipeline.views import Views
from tests.core.pipeline.making import CROP, MIDDLE, Pixels, dataset, encoded, engine, fill, smooth
from tests.core.pipeline.transforms.batches import NOTHING, whole

FLIP = {"name": "flip"}
ALWAYS = {"name": "flip", "p": 1}
GREY = {"name": "grayscale", "p": 0}
PAD = {"name": "pad-crop", "size": 16, "padding": 6}
RESIZE = {"name": "resize", "size": 40}
VIEW = {"name": "view"}
Rows = npt.NDArray[np.float32]


def views_of(index: DatasetIndex, *transforms: dict[str, Any], epoch: int = 0) -> Rows:
    made = engine(index, *transforms, VIEW).extras(epoch, np.arange(index.samples))
    assert list(made) == ["view"]
    assert made["view"].dtype == np.float32
    assert made["view"].shape == (index.samples, 5)
    return made["view"]


def cut(picture: Image.Image, row: Rows, size: int = 16) -> npt.NDArray[Any]:
    """What a view says, of the picture itself; black stands beyond the picture."""
    left, top, width, height, mirrored = row.tolist()
    box = (left, top, left + width, top + height)
    if min(box) >= 0 and box[2] <= picture.width and box[3] <= picture.height:
        part = picture.resize((size, size), Image.Resampling.BILINEAR, box)
    else:
        affine = (width / size, 0, left, 0, height / size, top)
        part = picture.transform(
            (size, size), Image.Transform.AFFINE, affine, Image.Resampling.BILINEAR
        )
    return np.asarray(ImageOps.mirror(part) if mirrored else part, dtype=int)


def apart(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """How far two pictures are apart in red and green, which say where their pixels come from."""
    return np.abs(one.astype(int) - other)[..., :2]


def opened(index: DatasetIndex, sample: int) -> Image.Image:
    with Image.open(io.BytesIO(index.read(sample))) as image:
        return ImageOps.exif_transpose(image).convert("RGB")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> DatasetIndex:
    """Pictures of several shapes, in which every place has its own colour."""
    sizes = [(256, 256), (300, 180), (180, 300), (120, 90), (250, 201), (64, 64)]
    pictures = (encoded(smooth(*size)) for size in sizes)
    return dataset(tmp_path_factory.mktemp("photos"), *pictures)


@pytest.mark.parametrize(
    "transforms",
    [
        [CROP],
        [CROP, ALWAYS],
        [CROP, FLIP],
        [RESIZE, MIDDLE],
        [MIDDLE],
        [RESIZE, ALWAYS, {"name": "pad-crop", "size": 16, "padding": 0}],
        [{**CROP, "size": 64}, FLIP, MIDDLE],
    ],
)
def test_cut_out_of_the_picture_it_gives_the_sample(
    photos: DatasetIndex, transforms: list[dict[str, Any]]
) -> None:
    for epoch in range(4):
        shown = fill(engine(photos, *transforms), *range(6), epoch=epoch)
        views = views_of(photos, *transforms, epoch=epoch)
        for sample, (pixels, row) in enumerate(zip(shown, views, strict=True)):
            assert apart(cut(opened(photos, sample), row), pixels).max() <= 2


def test_what_is_mirrored_says_so(photos: DatasetIndex) -> None:
    assert views_of(photos, MIDDLE, ALWAYS)[:, 4].tolist() == [1] * 6
    assert views_of(photos, MIDDLE, ALWAYS, ALWAYS)[:, 4].tolist() == [0] * 6
    views = np.concatenate([views_of(photos, MIDDLE, FLIP, epoch=epoch) for epoch in range(10)])
    assert 10 < views[:, 4].sum() < 50


def test_black_that_was_added_is_part_of_the_rectangle(photos: DatasetIndex) -> None:
    steps = [{"name": "pad-crop", "size": 80, "padding": 20}, FLIP]
    for epoch in range(6):
        views = views_of(photos, *steps, epoch=epoch)
        assert (views[:, 2:4] == 80).all()
        assert views[5, :2].min() <= 0, "a picture of 64 pixels does not fill it"
        shown = fill(engine(photos, *steps), *range(6), epoch=epoch, size=80)
        for sample, (pixels, row) in enumerate(zip(shown, views, strict=True)):
            np.testing.assert_array_equal(cut(opened(photos, sample), row, 80), pixels)


def test_black_around_a_crop_covers_what_was_cropped(photos: DatasetIndex) -> None:
    for epoch in range(6):
        for left, top, width, height, _ in views_of(photos, MIDDLE, FLIP, PAD, epoch=epoch)[:1]:
            assert (width, height) == (16, 16)
            assert 120 - 6 <= left <= 120 + 6
            assert 120 - 6 <= top <= 120 + 6


def test_several_stages_are_put_together(photos: DatasetIndex) -> None:
    larger = {"name": "random-resized-crop", "size": 96, "min_area": 0.5}
    steps = [larger, FLIP, GREY, {**PAD, "size": 80, "padding": 0}, FLIP, GREY, CROP, FLIP]
    [first, *later] = Pipeline.parse(PipelineSpec(transforms=steps)).stages
    assert (len(first.geometry), len(later)) == (2, 2)
    mirrored: set[tuple[float, ...]] = set()
    for epoch in range(8):
        shown = fill(engine(photos, *steps), *range(6), epoch=epoch)
        views = views_of(photos, *steps, epoch=epoch)
        for sample, (pixels, row) in enumerate(zip(shown, views, strict=True)):
            assert apart(cut(opened(photos, sample), row), pixels).max() <= 3
        mirrored |= {tuple(views[:, 4])}
    assert len(mirrored) > 4


def test_black_between_two_stages_is_part_of_the_rectangle(photos: DatasetIndex) -> None:
    steps = [{"name": "pad-crop", "size": 96, "padding": 30}, FLIP, RESIZE, FLIP, MIDDLE]
    assert len(Pipeline.parse(PipelineSpec(transforms=steps)).stages) == 2
    for epoch in range(8):
        shown = fill(engine(photos, *steps), *range(6), epoch=epoch)
        views = views_of(photos, *steps, epoch=epoch)
        # A pixel of the sample is 96 / 40 of the picture, and its middle 16 of 40 are seen.
        np.testing.assert_allclose(views[:, 2:4], 16 * 96 / 40)
        for sample, (pixels, row) in enumerate(zip(shown, views, strict=True)):
            difference = apart(cut(opened(photos, sample), row), pixels)
            assert (difference > 2).mean() < 0.15, "only at the black's edge"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("steps", [[CROP, FLIP], [RESIZE, MIDDLE, ALWAYS]])
def test_it_is_told_in_pixels_of_the_upright_picture(
    tmp_path: Path, orientation: int, steps: list[dict[str, Any]]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    photo = encoded(smooth(200, 120), "JPEG", quality=95, subsampling=0, exif=exif)
    index = dataset(tmp_path, photo, ending="jpg")
    upright = opened(index, 0)
    assert upright.size == ((120, 200) if orientation >= 5 else (200, 120))
    for epoch in range(3):
        pixels = fill(engine(index, *steps), 0, epoch=epoch)[0]
        [row] = views_of(index, *steps, epoch=epoch)
        assert apart(cut(upright, row), pixels).max() <= 3


def test_a_picture_that_is_left_lying_is_told_as_it_lies(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    index = dataset(tmp_path, encoded(smooth(200, 120), "JPEG", exif=exif), ending="jpg")
    lying = {"name": "decode", "orient": False}
    assert views_of(index, lying, MIDDLE).tolist() == [[92, 52, 16, 16, 0]]
    assert views_of(index, MIDDLE).tolist() == [[52, 92, 16, 16, 0]]


def seen(views: Views, *later: Views) -> Seen:
    numbers = np.arange(len(views))
    return Seen(numbers, numbers, numbers, numbers, views, later, NOTHING)


def test_where_nothing_of_the_picture_is_seen_all_is_0() -> None:
    beyond = whole(10, 10).padded(20).crop(0, 0, 8, 8)
    assert View().make(seen(beyond)).tolist() == [[0, 0, 0, 0, 0]]
    assert View().make(seen(beyond, whole(8, 8))).tolist() == [[0, 0, 0, 0, 0]]
    beside = whole(10, 10).padded(20).crop(0, 22, 8, 8).mirror(np.ones(1, np.bool_))
    assert View().make(seen(beside)).tolist() == [[0, 0, 0, 0, 1]]


def test_what_is_cut_at_fractions_of_a_pixel_is_told_so() -> None:
    views = whole(30, 20).scaled(20, 20).crop(3, 5, 10, 10)
    assert View().make(seen(views)).tolist() == [[4.5, 5, 15, 10, 0]]


def test_the_explanation_is_the_view() -> None:
    row = np.asarray([[1.5, 2, 30, 40, 1]], np.float32)
    wanted = {"left": 1.5, "top": 2.0, "width": 30.0, "height": 40.0, "mirrored": True}
    assert View().explain(row) == [wanted]


class Halved(PixelTransform):
    """Every second pixel."""

    name = "halved"

    def apply(self, pixels: Pixels, drawn: npt.NDArray[np.float64]) -> Pixels:
        return pixels[:, ::2, ::2]

    def output_size(self, size: tuple[int, int]) -> tuple[int, int]:
        return size[0] // 2, size[1] // 2


def test_where_a_pixel_step_changes_the_size_it_is_refused() -> None:
    with pytest.raises(InvalidInput, match="view cannot tell what is seen after halved, which"):
        View().check([Stage((), (Halved(),), 16, 16)])
    View().check([Stage((), (), 16, 16), Stage((), (), 8, 8)])
