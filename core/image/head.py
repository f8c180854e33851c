"""What is known of an image before it is decoded."""

from dataclasses import dataclass
from enum import IntEnum

from ddlp.core.errors import BadSample

MAX_SIDE = 1 << 20
"""Pixels along a side that any engine takes."""


class Kind(IntEnum):
    """How a sample's pixels are encoded, as far as the choice of a decoder goes."""

    OTHER = 0
    """Whatever Pillow reads."""
    JPEG = 1
    """Huffman-coded JPEG of 8 bits, baseline or progressive, with 1, 3 or 4 components."""
    PIXELS = 2
    """Raw: height × width × 3 bytes."""
    RECORD = 3
    """A JPEG's coefficients as a packed record."""


@dataclass(frozen=True)
class ImageHead:
    """Kind, size as stored in the file, and the EXIF orientation (1 to 8) to be applied to it.

    Bits are those of a channel: 8 or fewer, or 16, which are scaled to 8.
    """

    kind: Kind
    width: int
    height: int
    orientation: int = 1
    bits: int = 8


def check_size(found: tuple[int, int], expected: tuple[int, int]) -> None:
    """Refuse a picture whose (width, height) is not the one that its views were made for."""
    if found != expected:
        raise BadSample(
            f"it is {found[0]} × {found[1]} pixels, not {expected[0]} × {expected[1]} as when it "
            "was indexed"
        )
