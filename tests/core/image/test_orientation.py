"""Pictures are written upright, as Pillow turns them."""

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageOps

from ddlp.core.image import Backend, Span, probe, probe_head
from ddlp.core.image.orientation import as_stored, is_turned
from tests.core.image.corpus import picture


def photo(orientation: int) -> bytes:
    image = Image.fromarray(picture(40, 24))
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=95, subsampling=0, exif=exif)
    return buffer.getvalue()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_whole_picture_is_turned_as_pillow_turns_it(
    reference: Backend, fused: Backend, orientation: int
) -> None:
    data = photo(orientation)
    head = probe(data)
    assert head.orientation == orientation
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    assert is_turned(orientation) == (upright.shape[0] == 40)
    height, width = upright.shape[:2]
    for engine in (reference, fused):
        slot = np.zeros_like(upright)
        across, down = Span(0, width, 0, width, width), Span(0, height, 0, height, height)
        stored = as_stored(orientation, across, down, slot, (head.width, head.height))
        engine.render_jpeg(data, (40, 24), *stored, None)
        np.testing.assert_array_equal(slot, upright)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_crop_of_a_turned_picture_is_the_crop_of_the_upright_one(
    fused: Backend, orientation: int
) -> None:
    data = photo(orientation)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    slot = np.zeros((7, 5, 3), dtype=np.uint8)
    stored = as_stored(orientation, Span(9, 5, 9, 14, 5), Span(4, 7, 4, 11, 7), slot, (40, 24))
    fused.render_jpeg(data, (40, 24), *stored, None)
    np.testing.assert_array_equal(slot, upright[4:11, 9:14])


@pytest.mark.parametrize(
    ("kind", "said"), [("PNG", (40, 24, 6)), ("WEBP", (40, 24, 6)), ("TIFF", (24, 40, 1))]
)
def test_other_formats_say_their_orientation_too(kind: str, said: tuple[int, int, int]) -> None:
    """All but TIFF, which Pillow turns upright by itself."""
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    Image.fromarray(picture(40, 24)).save(buffer, kind, exif=exif)
    head = probe(buffer.getvalue())
    assert (head.width, head.height, head.orientation) == said


def test_the_head_of_a_large_png_suffices() -> None:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, "PNG")
    head = probe_head(buffer.getvalue()[:4096])
    assert head is not None
    assert (head.width, head.height) == (300, 200)


def test_an_orientation_that_is_no_whole_number_is_ignored() -> None:
    """As a fraction it would pass for 6 and then fit into no column of an index."""
    tiff = b"II*\0" + (8).to_bytes(4, "little") + (1).to_bytes(2, "little")
    tiff += struct.pack("<HHII", 0x0112, 12, 1, 26) + b"\0\0\0\0" + struct.pack("<d", 6.0)
    buffer = io.BytesIO()
    Image.fromarray(picture(40, 24)).save(buffer, "PNG", exif=b"Exif\0\0" + tiff)
    assert probe(buffer.getvalue()).orientation == 1
