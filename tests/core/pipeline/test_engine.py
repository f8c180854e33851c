"""The engine: the same bytes in any company, what Pillow would show, and bad samples by name."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ddlp.core.dataset import DatasetIndex, scan_folder, write_index
from ddlp.core.errors import BadSample
from ddlp.core.pipeline import Engine, Pipeline, PipelineSpec

Pixels = npt.NDArray[np.uint8]
CROP = {"name": "random-resized-crop", "size": 16}
MIDDLE = {"name": "centre-crop", "size": 16}


def smooth(width: int, height: int) -> Image.Image:
    """Red grows to the right, green downwards, blue in waves: every place has its own colour."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    blue = 127 + 127 * np.sin(x / 20 + y / 30)
    return Image.fromarray(np.stack([x, y, blue], axis=-1).astype(np.uint8))


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def dataset(root: Path, *samples: bytes, ending: str = "png") -> DatasetIndex:
    for number, data in enumerate(samples):
        path = root / "images" / f"class{number % 2}" / f"{number:03d}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    write_index(scan_folder(root / "images"), root / "images.idx")
    return DatasetIndex(root / "images.idx")


def engine(index: DatasetIndex, *transforms: dict[str, Any], seed: int = 0) -> Engine:
    return Engine(index, Pipeline.parse(PipelineSpec(transforms=list(transforms))), seed)


def fill(engine: Engine, *samples: int, epoch: int = 0, size: int = 16) -> Pixels:
    out = np.zeros((len(samples), size, size, 3), dtype=np.uint8)
    engine.fill(epoch, np.asarray(samples, dtype=np.int64), out)
    return out


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
    left, top = (size[0] - 16) // 2, (size[1] - 16) // 2
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
    left, top = (width - 16) // 2, (height - 16) // 2
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


def grey_16_bits(value: int) -> Image.Image:
    return Image.fromarray(np.full((20, 20), value, dtype=np.uint16))


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
    "grey PNG of 16 bits": (encoded(grey_16_bits(90 << 8 | 200)), (90, 90, 90)),
    "grey TIFF of 16 bits": (encoded(grey_16_bits(90 << 8 | 200), "TIFF"), (90, 90, 90)),
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
    assert labels.tolist() == [varied.label(sample) for sample in (5, 0, 3, 3)] == [1, 0, 1, 1]


def png_that_claims(width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [head, b"IDAT"]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
        for chunk in chunks
    )


JPEG = encoded(smooth(256, 256), "JPEG")
BAD: dict[str, tuple[bytes, str]] = {
    "a JPEG that was cut short": (JPEG[: len(JPEG) // 2], "truncated"),
    "a PNG that was cut short": (encoded(smooth(64, 64))[:500], "truncated"),
    "a header alone": (JPEG[:100], ""),
    "text": (b"<html>404 not found</html>", "it is not an image of a known format"),
    "nothing": (b"", "it is not an image of a known format"),
    "whole numbers of 32 bits": (encoded(Image.new("I", (9, 9)), "TIFF"), "pixels of mode I are"),
    "fractions": (encoded(Image.new("F", (9, 9)), "TIFF"), "pixels of mode F are not taken"),
    "an image of 40 gigapixels": (png_that_claims(200_000, 200_000), "exceeds limit of"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_sample_is_named_with_the_reason(tmp_path: Path, kind: str) -> None:
    data, reason = BAD[kind]
    index = dataset(tmp_path, encoded(smooth(20, 20)), data, ending="jpg")
    with pytest.raises(BadSample, match=rf"{index.path(1)} cannot be decoded: .*{reason}"):
        fill(engine(index, MIDDLE), 0, 1)


def test_a_sample_that_changed_since_it_was_indexed_is_named(tmp_path: Path) -> None:
    index = dataset(tmp_path, encoded(smooth(20, 20)))
    index.path(0).write_bytes(encoded(smooth(21, 20)))
    words = "it was changed after it was indexed; register the dataset again"
    with pytest.raises(BadSample, match=rf"000\.png cannot be decoded: {words}"):
        fill(engine(index, MIDDLE), 0)


def test_a_sample_that_is_gone_is_named(tmp_path: Path) -> None:
    index = dataset(tmp_path, encoded(smooth(20, 20)))
    index.path(0).unlink()
    with pytest.raises(BadSample, match=r"000\.png cannot be decoded: No such file"):
        fill(engine(index, MIDDLE), 0)
