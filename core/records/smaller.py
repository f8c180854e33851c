"""Encodes pictures anew, smaller or of less quality: the one step of packing that loses pixels."""

import io

from PIL import Image

from ddlp.core.dataset.encoded import image_file
from ddlp.core.dataset.layout import SampleRow
from ddlp.core.errors import BadSample
from ddlp.core.image import Kind, pillow, probe
from ddlp.core.image.head import check_size
from ddlp.core.image.orientation import tagged
from ddlp.core.records.options import PackOptions

_GAP = 3.0
"""How much larger than asked for a JPEG is decoded before it is resampled."""


def encode_anew(data: bytes, row: SampleRow, options: PackOptions) -> tuple[bytes, SampleRow]:
    """A picture as a JPEG within the options; what is within them, or damaged, stays as it is.

    A record that stands for no JPEG is a BadSample.
    """
    data_now, row_now = data, row
    if row.kind == Kind.RECORD:
        data_now, row_now = image_file(row, data), row._replace(kind=Kind.JPEG)
    try:
        if options.quality is None and max(row.width, row.height) <= (options.max_side or 0):
            return data_now, row_now
        head = probe(data_now)
        check_size((head.width, head.height), (row.width, row.height))
        made, (width, height) = _encode(data_now, options)
    except BadSample:
        return data, row
    if row.orientation > 1:
        made = tagged(made, row.orientation)
    return made, row._replace(size=len(made), width=width, height=height, kind=Kind.JPEG)


def _encode(data: bytes, options: PackOptions) -> tuple[bytes, tuple[int, int]]:
    out = io.BytesIO()
    try:
        with Image.open(io.BytesIO(data)) as image:
            picture = image if image.format == "JPEG" else _plain(image)
            if options.max_side is not None:
                side = options.max_side
                picture.thumbnail((side, side), Image.Resampling.LANCZOS, reducing_gap=_GAP)
            _plain(picture).save(out, "JPEG", quality=options.new_quality)
            return out.getvalue(), picture.size
    except MemoryError:
        raise
    except Exception as error:  # the border to the decoder, which raises whatever it likes
        raise BadSample(pillow.reason_of(error)) from error


def _plain(image: Image.Image) -> Image.Image:
    """Grey as grey, all else as RGB."""
    image = pillow.to_8_bits(image)
    if image.mode in ("L", "RGB"):
        return image
    return image.convert("L") if image.mode == "1" else pillow.to_rgb(image)
