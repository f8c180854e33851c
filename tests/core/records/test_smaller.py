"""Lossy on purpose: as small as asked for, never larger, and as upright and grey as before."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ddlp.core.dataset.layout import SampleRow
from ddlp.core.errors import BadSample
from ddlp.core.image import Kind, backend, probe
from ddlp.core.records import PackOptions
from ddlp.core.records.smaller import encode_anew
from tests.core.records.making import NEEDS_KERNEL, encoded, turned


def row_of(data: bytes) -> SampleRow:
    head = probe(data)
    return SampleRow(
        len(data),
        5,
        label=3,
        width=head.width,
        height=head.height,
        kind=head.kind,
        orientation=head.orientation,
    )


def anew(data: bytes, **options: Any) -> tuple[bytes, SampleRow, Image.Image]:
    made, row = encode_anew(data, row_of(data), PackOptions(**options))
    image = Image.open(io.BytesIO(made))
    image.load()
    assert (row.width, row.height) == image.size
    return made, row, image


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_the_longest_side_fits_and_the_shape_stays(form: str) -> None:
    _, row, image = anew(encoded(side=300, form=form), max_side=100)
    assert image.format == "JPEG"
    assert image.size == (100, 97)
    assert (row.kind, row.label, row.orientation) == (Kind.JPEG, 3, 1)


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_what_is_small_enough_stays_as_it_is(form: str) -> None:
    data = encoded(side=60, form=form)
    assert encode_anew(data, row_of(data), PackOptions(max_side=69)) == (data, row_of(data))
    _, _, image = anew(data, max_side=69, quality=50)
    assert image.size == (69, 60)


def test_quality_alone_keeps_the_size() -> None:
    data = encoded(side=200, quality=95)
    sizes = [len(anew(data, quality=quality)[0]) for quality in (20, 60, 90)]
    assert sizes == sorted(sizes)
    assert sizes[-1] < len(data)
    assert anew(data, quality=20)[2].size == (209, 200)


@pytest.mark.parametrize(
    ("mode", "form", "becomes"),
    [
        ("RGB", "JPEG", "RGB"),
        ("L", "JPEG", "L"),
        ("CMYK", "JPEG", "RGB"),
        ("L", "PNG", "L"),
        ("1", "PNG", "L"),
        ("P", "PNG", "RGB"),
        ("RGBA", "PNG", "RGB"),
        ("LA", "PNG", "RGB"),
    ],
)
def test_grey_stays_grey_and_all_else_is_rgb(mode: str, form: str, becomes: str) -> None:
    data = encoded(mode, 200, form)
    for options in ({"max_side": 50}, {"quality": 90}):
        assert anew(data, **options)[2].mode == becomes


def test_it_looks_the_same() -> None:
    ramp = Image.linear_gradient("L").resize((400, 300)).convert("RGB")
    out = io.BytesIO()
    ramp.save(out, "JPEG", quality=95)
    _, _, image = anew(out.getvalue(), max_side=100)
    expected = np.asarray(ramp.resize((100, 75), Image.Resampling.LANCZOS)).astype(int)
    assert abs(np.asarray(image).astype(int) - expected).max() < 6


@pytest.mark.parametrize("form", ["JPEG", "WEBP", "PNG", "TIFF"])
@pytest.mark.parametrize("orientation", [3, 6])
def test_the_orientation_stays(form: str, orientation: int) -> None:
    data = encoded(side=200, form=form, exif=turned(orientation))
    before = probe(data)
    made, row, image = anew(data, max_side=50)
    assert probe(made).orientation == row.orientation == before.orientation
    assert (image.width > image.height) == (before.width > before.height)


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_what_is_damaged_stays_as_it_is(form: str) -> None:
    data = encoded(side=200, form=form)
    row = row_of(data)
    for spoilt in (data[: len(data) // 2], b"nothing", data[:-2]):
        if form == "PNG" and spoilt == data[:-2]:
            continue
        assert encode_anew(spoilt, row, PackOptions(max_side=50)) == (spoilt, row)


def test_another_picture_than_was_indexed_stays_as_it_is() -> None:
    data = encoded(side=200)
    row = row_of(data)._replace(width=208)
    assert encode_anew(data, row, PackOptions(max_side=50)) == (data, row)


@NEEDS_KERNEL
def test_a_record_is_made_smaller_as_its_jpeg_is() -> None:
    data = encoded(side=200, exif=turned(6))
    record = backend().pack_record(data, False)
    assert record is not None
    row = row_of(data)._replace(kind=Kind.RECORD)
    options = PackOptions(max_side=50)
    assert encode_anew(record, row, options) == encode_anew(data, row_of(data), options)
    with pytest.raises(BadSample):
        encode_anew(b"\0" * 100, row, options)
