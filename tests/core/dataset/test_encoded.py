"""However a sample is stored, it can be made an image file."""

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from ddlp.core.dataset.encoded import image_file
from ddlp.core.dataset.layout import SampleRow
from ddlp.core.image import Kind, backend, probe
from tests.core.records.making import NEEDS_KERNEL, encoded, turned

ROW = SampleRow(0, 0, width=3, height=2, orientation=1)


def test_raw_pixels_get_a_head() -> None:
    pixels = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
    with Image.open(io.BytesIO(image_file(ROW._replace(kind=Kind.PIXELS), pixels.tobytes()))) as im:
        np.testing.assert_array_equal(np.asarray(im), pixels)


@pytest.mark.parametrize("kind", [Kind.JPEG, Kind.OTHER])
def test_files_stay_as_they_are(kind: Kind) -> None:
    assert image_file(ROW._replace(kind=kind), b"whatever it is") == b"whatever it is"


@NEEDS_KERNEL
@pytest.mark.parametrize("keep_head", [False, True])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_record_becomes_a_jpeg_that_shows_the_same_way_up(
    orientation: int, keep_head: bool
) -> None:
    data = encoded(exif=turned(orientation))
    record = backend().pack_record(data, keep_head)
    assert record is not None
    made = image_file(ROW._replace(kind=Kind.RECORD, orientation=orientation), record)
    assert probe(made) == probe(data)
    with Image.open(io.BytesIO(made)) as ours, Image.open(io.BytesIO(data)) as theirs:
        shown = ImageOps.exif_transpose(ours), ImageOps.exif_transpose(theirs)
        np.testing.assert_array_equal(*map(np.asarray, shown))
        assert (ours.getexif().get(0x010E) == "a description") == keep_head
