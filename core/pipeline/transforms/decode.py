"""Says how encoded bytes become upright pixels, and what is too large to try."""

from typing import ClassVar

from pydantic import Field

from ddlp.core.image.pillow import MAX_PIXELS
from ddlp.core.pipeline.transforms.base import Transform


class Decode(Transform):
    """The first step of every pipeline, there with these defaults where it is left out."""

    name: ClassVar[str] = "decode"

    orient: bool = Field(True, description="Turn the picture upright as its EXIF data asks.")
    dct_scaling: bool = Field(
        False,
        description="Let the decoder reduce large JPEG files: faster, and slightly other pixels.",
    )
    max_pixels: int = Field(
        MAX_PIXELS, ge=1, le=MAX_PIXELS, description="An image with more pixels is a bad sample."
    )
    max_bytes: int = Field(
        256 * 2**20, ge=1, le=2**40, description="A file with more bytes is a bad sample."
    )
    max_seconds: float = Field(
        30.0, gt=0, le=3600, description="An image that takes longer to decode is a bad sample."
    )
