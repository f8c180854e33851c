"""Images of 16 bits per channel are scaled to 8 bits by the documented rule."""

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from ddlp.core.errors import BadSample
from ddlp.core.image import ImageHead, Kind, check, probe
from ddlp.core.image.pillow import decode
from ddlp.core.image.thumbnail import thumbnail
from tests.core.image.deep import Levels, all_levels, in_channels, jpeg2000, png, pnm, tiff

UPPER_BYTE = {
    "PNG grey": png(all_levels()),
    "PNG grey and alpha": png(in_channels(all_levels(), 2)),
    "PNG RGB": png(in_channels(all_levels(), 3)),
    "PNG RGBA": png(in_channels(all_levels(), 4)),
    "TIFF grey": tiff(all_levels()),
    "TIFF grey, big-endian": tiff(all_levels(), ">"),
    "TIFF RGB": tiff(in_channels(all_levels(), 3)),
    "TIFF RGB, big-endian": tiff(in_channels(all_levels(), 3), ">"),
}
MAXIMA = [256, 1000, 4095, 65534, 65535]


@pytest.mark.parametrize("data", UPPER_BYTE.values(), ids=UPPER_BYTE)
def test_png_and_tiff_keep_the_upper_byte(data: bytes) -> None:
    assert probe(data) == check(data) == ImageHead(Kind.OTHER, 256, 256, bits=16)
    expected = (all_levels() >> 8).astype(np.uint8)
    np.testing.assert_array_equal(decode(data), in_channels(expected, 3))


def test_where_white_is_zero_levels_are_inverted() -> None:
    expected = (255 - (all_levels() >> 8)).astype(np.uint8)
    found = decode(tiff(all_levels(), white_is_zero=True))
    np.testing.assert_array_equal(found, in_channels(expected, 3))


def scaled(levels: Levels, maximum: int) -> npt.NDArray[np.uint8]:
    return np.array([round(int(v) / maximum * 255) for v in levels.flat]).reshape(levels.shape)


@pytest.mark.parametrize("maximum", MAXIMA)
def test_pgm_and_ppm_are_scaled_by_their_maximum(maximum: int) -> None:
    levels = np.minimum(all_levels(), maximum)
    expected = in_channels(scaled(levels, maximum).astype(np.uint8), 3)
    for data in (pnm(levels, maximum), pnm(in_channels(levels, 3), maximum)):
        assert probe(data) == check(data) == ImageHead(Kind.OTHER, 256, 256, bits=16)
        np.testing.assert_array_equal(decode(data), expected)


@pytest.mark.parametrize("maximum", MAXIMA)
def test_plain_pgm_and_ppm_too(maximum: int) -> None:
    levels = np.minimum(all_levels(), maximum)[::9, ::9]
    expected = in_channels(scaled(levels, maximum).astype(np.uint8), 3)
    for channels in (levels, in_channels(levels, 3)):
        data = pnm(channels, maximum, plain=True)
        assert probe(data).bits == 16
        np.testing.assert_array_equal(decode(data), expected)


def test_grey_jpeg_2000_keeps_the_upper_byte() -> None:
    expected = in_channels((all_levels() >> 8).astype(np.uint8), 3)
    np.testing.assert_array_equal(decode(jpeg2000(all_levels())), expected)


@pytest.mark.parametrize("data", [*UPPER_BYTE.values(), pnm(all_levels(), 65535)])
def test_no_level_is_more_than_one_off_from_the_exact_one(data: bytes) -> None:
    exact = all_levels().astype(float) / 65535 * 255
    assert np.abs(decode(data)[..., 0] - exact).max() < 1


@pytest.mark.parametrize("data", [png(all_levels()), tiff(all_levels()), pnm(all_levels(), 65535)])
def test_thumbnails_and_smaller_copies_show_the_same(data: bytes) -> None:
    from ddlp.core.dataset.layout import SampleRow
    from ddlp.core.records import PackOptions
    from ddlp.core.records.smaller import encode_anew

    row = SampleRow(len(data), 0, width=256, height=256, kind=Kind.OTHER, orientation=1)
    for made in (thumbnail(data), encode_anew(data, row, PackOptions(max_side=96))[0]):
        with Image.open(io.BytesIO(made)) as small:
            shown = np.asarray(small.convert("RGB")).astype(int)
        expected = np.asarray(Image.fromarray(decode(data)).resize((96, 96))).astype(int)
        assert np.abs(shown - expected).max() <= 6


def stored(values: npt.NDArray[Any], form: str) -> bytes:
    out = io.BytesIO()
    Image.fromarray(values).save(out, form)
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (stored(all_levels().astype(np.int32), "TIFF"), "32 bits per channel"),
        (stored(all_levels().astype(np.float32), "TIFF"), "floating point"),
        (tiff(all_levels(), signed=True), "signed, of 16 bits per channel"),
    ],
    ids=["32 bits", "floating point", "signed"],
)
def test_what_has_no_rule_is_refused_with_one_that_has(data: bytes, words: str) -> None:
    with pytest.raises(BadSample, match=f"its pixels are {words}; .* 8 or 16 unsigned bits"):
        probe(data)


def test_a_bitmap_of_16_bits_per_pixel_is_none_of_16_bits_per_channel() -> None:
    pixels = bitmap()
    assert probe(pixels) == ImageHead(Kind.OTHER, 2, 1)
    assert decode(pixels)[0].tolist() == [[255, 0, 0], [0, 0, 255]]


def bitmap() -> bytes:
    """A BMP of a red and a blue pixel, five or six bits a colour."""
    masks = b"".join(mask.to_bytes(4, "little") for mask in (0xF800, 0x07E0, 0x001F))
    info = (40, 2, 1, 1 | 16 << 16, 3, 4, 0, 0, 0, 0)
    head = b"".join(number.to_bytes(4, "little") for number in info)
    start = b"BM" + b"".join(number.to_bytes(4, "little") for number in (70, 0, 66))
    return start + head + masks + b"\x00\xf8\x1f\x00"
