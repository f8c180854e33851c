"""The engine: the same bytes in any company, what Pillow would show, and bad samples by name."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.errors import BadSample
from ddlp.core.image import Pixels, engine_name
from ddlp.core.maps import OUTLIVES_LOSS
from tests.core.pipeline.making import CROP, MIDDLE, dataset, encoded, engine, fill, smooth


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> DatasetIndex:
    """Six images of different sizes."""
    images = [smooth(40 + 9 * n, 70 - 7 * n) for n in range(6)]
    return dataset(tmp_path_factory.mktemp("varied"), *(encoded(image) for image in images))


@settings(max_examples=30, deadline=None)
@given(order=st.lists(st.integers(0, 5), min_size=1, max_size=8), epoch=st.integers(0, 9))
def test_a_sample_has_the_same_bytes_alone_and_in_any_batch(
    varied: DatasetIndex, order: list[int], epoch: int
) -> None:
    random = engine(varied, CROP, {"name": "flip"})
    together = fill(random, *order, epoch=epoch)
    for pixels, sample in zip(together, order, strict=True):
        np.testing.assert_array_equal(pixels, fill(random, sample, epoch=epoch)[0])


def test_another_engine_for_the_same_seed_makes_the_same_bytes(varied: DatasetIndex) -> None:
    first, second = (engine(varied, CROP, {"name": "flip"}, seed=5) for _ in range(2))
    np.testing.assert_array_equal(fill(first, *range(6)), fill(second, *range(6)))


def test_seed_and_epoch_change_what_is_seen(varied: DatasetIndex) -> None:
    seen = [
        fill(engine(varied, CROP, seed=seed), *range(6), epoch=epoch)
        for seed, epoch in [(0, 0), (0, 1), (1, 0)]
    ]
    assert len({pixels.tobytes() for pixels in seen}) == 3


def test_two_random_transforms_of_one_kind_draw_apart(varied: DatasetIndex) -> None:
    twice = engine(varied, MIDDLE, {"name": "flip"}, {"name": "flip"})
    never = engine(varied, MIDDLE)
    flipped = [
        not np.array_equal(fill(twice, 0, epoch=epoch), fill(never, 0)) for epoch in range(40)
    ]
    assert 8 < sum(flipped) < 32, "drawn together, two flips would always undo each other"


def test_normalising_is_left_to_the_loader(varied: DatasetIndex) -> None:
    plain, normalised = engine(varied, MIDDLE), engine(varied, MIDDLE, {"name": "normalize"})
    np.testing.assert_array_equal(fill(plain, 0, 1), fill(normalised, 0, 1))


@pytest.mark.parametrize("size", [(16, 16), (17, 16), (16, 19), (101, 75)])
def test_a_centre_crop_shows_the_very_pixels_of_the_image(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    image = smooth(*size)
    left, top = round((size[0] - 16) / 2), round((size[1] - 16) / 2)
    shown = fill(engine(dataset(tmp_path, encoded(image)), MIDDLE), 0)[0]
    np.testing.assert_array_equal(shown, image.crop((left, top, left + 16, top + 16)))


@pytest.mark.parametrize("size", [(100, 75), (75, 100), (41, 333), (20, 20), (9, 11)])
def test_resize_and_centre_crop_show_what_pillow_shows_in_two_steps(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    image = smooth(*size)
    both = engine(dataset(tmp_path, encoded(image)), {"name": "resize", "size": 20}, MIDDLE)
    scale = 20 / min(size)
    width, height = (max(20, int(side * scale)) for side in size)
    left, top = round((width - 16) / 2), round((height - 16) / 2)
    wanted = image.resize((width, height), Image.Resampling.BILINEAR)
    expected = np.asarray(wanted.crop((left, top, left + 16, top + 16)), dtype=int)
    assert np.abs(fill(both, 0)[0] - expected).max() <= 1


def test_a_random_crop_shows_a_part_of_the_image_at_the_right_place(tmp_path: Path) -> None:
    # In this image red is the column and green is the row: the colours say what is seen.
    index = dataset(tmp_path, *[encoded(smooth(256, 256))] * 40)
    shown = fill(engine(index, CROP), *range(40)).astype(float)
    across, down = shown[:, :, :, 0], shown[:, :, :, 1]
    assert np.ptp(across, axis=1).max() <= 1, "columns stay columns"
    assert np.ptp(down, axis=2).max() <= 1, "rows stay rows"
    width, height = np.ptp(across[:, 0], axis=1), np.ptp(down[:, :, 0], axis=1)
    assert (width > 0).all()
    assert (np.abs(np.log(width / height)) < np.log(4 / 3) + 0.05).all()
    share = width * height * (16 / 15) ** 2 / 256**2
    assert 0.07 < share.min() < 0.3
    assert 0.7 < share.max() <= 1.02


KNOWN_MIDDLES = [[112, 112], [154, 141], [84, 138], [121, 104], [144, 156], [112, 101]]
KNOWN_MIRRORED = [False, False, True, False, True, True]


def test_what_is_drawn_is_the_same_in_every_release(tmp_path: Path) -> None:
    # New values here mean that runs of older releases cannot be repeated any more.
    index = dataset(tmp_path, *[encoded(smooth(256, 256))] * 6)
    shown = fill(engine(index, CROP, {"name": "flip"}, seed=1), *range(6), epoch=2)
    middles = shown[:, :, :, :2].mean(axis=(1, 2))
    mirrored = (shown[:, 0, 0, 0] > shown[:, 0, -1, 0]).tolist()
    np.testing.assert_allclose(middles, KNOWN_MIDDLES, atol=1)
    assert mirrored == KNOWN_MIRRORED


def test_mirrored_is_the_mirror(varied: DatasetIndex) -> None:
    straight = fill(engine(varied, CROP, {"name": "flip", "p": 0}), *range(6))
    mirrored = fill(engine(varied, CROP, {"name": "flip", "p": 1}), *range(6))
    np.testing.assert_array_equal(mirrored, straight[:, :, ::-1])
    assert not np.array_equal(mirrored, straight)


@pytest.mark.parametrize("size", [(1, 1), (1, 60), (60, 1), (3, 1000)])
@pytest.mark.parametrize("transforms", [[CROP], [{"name": "resize", "size": 20}, MIDDLE], [MIDDLE]])
def test_images_of_extreme_shapes_fill_the_output(
    tmp_path: Path, size: tuple[int, int], transforms: list[dict[str, Any]]
) -> None:
    index = dataset(tmp_path, encoded(Image.new("RGB", size, (200, 100, 50))))
    assert (fill(engine(index, *transforms), 0) == (200, 100, 50)).all()


KINDS: dict[str, tuple[bytes, tuple[int, int, int]]] = {
    "grey PNG": (encoded(Image.new("L", (20, 20), 90)), (90, 90, 90)),
    "grey JPEG": (encoded(Image.new("L", (20, 20), 90), "JPEG"), (90, 90, 90)),
    "black and white PNG": (encoded(Image.new("1", (20, 20), 1)), (255, 255, 255)),
    "grey PNG with alpha": (encoded(Image.new("LA", (20, 20), (90, 10))), (90, 90, 90)),
    "RGBA PNG": (encoded(Image.new("RGBA", (20, 20), (200, 100, 50, 10))), (200, 100, 50)),
    "palette PNG": (
        encoded(Image.new("RGB", (20, 20), (200, 100, 50)).quantize(4)),
        (200, 100, 50),
    ),
    "palette PNG with a transparent colour": (
        encoded(Image.new("RGB", (20, 20), (200, 100, 50)).quantize(4), transparency=0),
        (200, 100, 50),
    ),
    "palette PNG with alpha": (
        encoded(
            Image.new("RGB", (20, 20), (200, 100, 50)).quantize(4), transparency=bytes([9, 255])
        ),
        (200, 100, 50),
    ),
    "RGB JPEG": (encoded(Image.new("RGB", (20, 20), (200, 100, 50)), "JPEG"), (200, 100, 50)),
    "CMYK JPEG": (
        encoded(Image.new("RGB", (20, 20), (200, 100, 50)).convert("CMYK"), "JPEG"),
        (200, 100, 50),
    ),
    "progressive JPEG": (
        encoded(Image.new("RGB", (20, 20), (200, 100, 50)), "JPEG", progressive=True),
        (200, 100, 50),
    ),
    "WebP": (encoded(Image.new("RGB", (20, 20), (200, 100, 50)), "WEBP"), (200, 100, 50)),
    "WebP with alpha": (
        encoded(Image.new("RGBA", (20, 20), (200, 100, 50, 255)), "WEBP", lossless=True),
        (200, 100, 50),
    ),
    "BMP": (encoded(Image.new("RGB", (20, 20), (200, 100, 50)), "BMP"), (200, 100, 50)),
    "TIFF": (encoded(Image.new("RGB", (20, 20), (200, 100, 50)), "TIFF"), (200, 100, 50)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_image_becomes_rgb(tmp_path: Path, kind: str) -> None:
    data, colour = KINDS[kind]
    shown = fill(engine(dataset(tmp_path, data), MIDDLE), 0).astype(int)
    assert np.abs(shown - colour).max() <= 5


def test_labels_are_those_of_the_samples_asked_for(varied: DatasetIndex) -> None:
    labels = engine(varied, MIDDLE).labels(np.asarray([5, 0, 3, 3], dtype=np.int64))
    assert labels.dtype == np.int64
    assert labels.tolist() == [1, 0, 1, 1]


STAGES = [
    {"name": "random-resized-crop", "size": 40},
    {"name": "flip"},
    {"name": "colour-jitter", "brightness": 0.4, "saturation": 0.4, "hue": 0.1},
    {"name": "pad-crop", "size": 32, "padding": 6},
    {"name": "centre-crop", "size": 16},
    {"name": "grayscale", "p": 0.3},
]


def test_stages_follow_each_other(varied: DatasetIndex) -> None:
    """Each step alone, on what the one before it made, gives what they give together."""
    together = fill(engine(varied, *STAGES), *range(6))
    assert len({picture.tobytes() for picture in together}) == 6
    explained = engine(varied, *STAGES).explain(0, np.arange(6))
    assert [step["transform"] for step in explained[0]] == [str(s["name"]) for s in STAGES]
    assert {"left", "top", "width", "height"} <= set(explained[0][0])
    for told, picture in zip(explained, together, strict=True):
        grey = picture[:, :, 0] == picture[:, :, 1]
        assert grey.all() == told[-1]["grey"]


def test_early_normalising_gives_floats(varied: DatasetIndex) -> None:
    for steps in ([MIDDLE], STAGES):
        late = fill(engine(varied, *steps), *range(6))
        early = engine(varied, *steps, {"name": "normalize", "early": True})
        out = np.zeros((6, 16, 16, 3), dtype=np.float32)
        early.fill(0, np.arange(6), out)
        mean, std = np.asarray([0.485, 0.456, 0.406]), np.asarray([0.229, 0.224, 0.225])
        np.testing.assert_allclose(out, (late / 255 - mean) / std, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> DatasetIndex:
    root = tmp_path_factory.mktemp("arrays")
    pixels = np.random.default_rng(0).integers(1, 256, (50, 32, 32, 3), dtype=np.uint8)
    np.savez(root / "pixels.npz", x=pixels, y=np.arange(50) % 3)
    scan(root / "pixels.npz", root / "index")
    return DatasetIndex(root / "index")


def test_arrays_are_cut_as_the_general_way_cuts_them(arrays: DatasetIndex) -> None:
    """The preset is done in one call for the whole batch; a resize to the same size is not."""
    steps = [{"name": "pad-crop", "size": 32, "padding": 4}, {"name": "flip"}]
    quick = fill(engine(arrays, *steps), *range(50), size=32)
    pixels = arrays.pixels()
    for sample, told in enumerate(engine(arrays, *steps).explain(0, np.arange(50))):
        padded = np.pad(pixels[sample], ((4, 4), (4, 4), (0, 0)))
        top, left = int(told[0]["top"]), int(told[0]["left"])
        wanted = padded[top : top + 32, left : left + 32]
        wanted = wanted[:, ::-1] if told[1]["mirrored"] else wanted
        np.testing.assert_array_equal(quick[sample], wanted)


@pytest.mark.skipif(not OUTLIVES_LOSS, reason="the module in C was not built")
def test_arrays_that_are_cut_short_while_they_are_cut_out_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "images.npy", np.full((50, 32, 32, 3), 9, np.uint8))
    np.save(tmp_path / "images-labels.npy", np.arange(50) % 3)
    scan(tmp_path / "images.npy", tmp_path / "index")
    index = DatasetIndex(tmp_path / "index")
    pixels = DatasetIndex.pixels

    def cut(self: DatasetIndex) -> Pixels:
        mapped = pixels(self)
        os.truncate(tmp_path / "images.npy", 0)
        return mapped

    monkeypatch.setattr(DatasetIndex, "pixels", cut)
    with pytest.raises(BadSample, match="it was changed after it was indexed"):
        fill(engine(index, CROP), *range(50))


def test_arrays_can_be_resized_too(arrays: DatasetIndex) -> None:
    shown = fill(engine(arrays, CROP), 0, 1, 2)
    assert len({picture.tobytes() for picture in shown}) == 3


@pytest.mark.skipif(not engine_name().startswith("fused"), reason="the kernel was not built")
def test_both_engines_make_the_same_epoch(varied: DatasetIndex, arrays: DatasetIndex) -> None:
    """A fresh process with the reference engine, over images and arrays, in several stages."""
    code = """
import hashlib, json, sys
import numpy as np
from pathlib import Path
from ddlp.core.dataset import DatasetIndex
from ddlp.core.pipeline import ENGINE, Engine, Pipeline, PipelineSpec

digest = hashlib.sha256()
for path, steps in json.load(sys.stdin):
    index = DatasetIndex(Path(path))
    pipeline = Pipeline.parse(PipelineSpec(transforms=steps))
    for epoch in range(3):
        out = np.zeros((index.samples, *pipeline.shape), dtype=pipeline.dtype)
        Engine(index, pipeline, 11).fill(epoch, np.arange(index.samples), out)
        digest.update(out.tobytes())
print(ENGINE.partition("-")[0], digest.hexdigest())
"""
    early = {"name": "normalize", "early": True}
    work = [
        (str(index.path), [*steps, *late])
        for index in (varied, arrays)
        for steps in ([CROP, {"name": "flip"}], STAGES, [{"name": "pad-crop", "size": 24}])
        for late in ([], [early])
    ]
    made = {}
    for wanted in ("fused", "reference"):
        ran = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps(work),
            env={**os.environ, "DDLP_ENGINE": wanted},
            capture_output=True,
            text=True,
            check=True,
        )
        name, digest = ran.stdout.split()
        made[name] = digest
    assert set(made) == {"fused", "reference"}
    assert made["fused"] == made["reference"]
