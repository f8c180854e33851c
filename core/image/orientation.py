"""Turns pictures upright while they are written: no pixel is moved twice.

A view speaks of the upright picture, a decoder of the stored one. The EXIF orientation says how the
axes of the two relate; the slot is seen through the same change of axes.
"""

import struct

from ddlp.core.image.backend import Slot
from ddlp.core.image.resize import Span

_EXIF = struct.Struct(">HH6s2sHIHHHIHHI")
_SWAPS = frozenset({5, 6, 7, 8})
_FLIPS_ACROSS = frozenset({2, 3, 7, 8})
_FLIPS_DOWN = frozenset({3, 4, 6, 7})


def is_turned(orientation: int) -> bool:
    """Whether width and height change places."""
    return orientation in _SWAPS


def as_stored(
    orientation: int, across: Span, down: Span, slot: Slot, stored: tuple[int, int]
) -> tuple[Span, Span, Slot]:
    """Spans and slot of an upright view in terms of the picture as stored, (width, height)."""
    if orientation in _SWAPS:
        across, down, slot = down, across, slot.transpose(1, 0, 2)
    if orientation in _FLIPS_ACROSS:
        across, slot = _flipped(across, stored[0]), slot[:, ::-1]
    if orientation in _FLIPS_DOWN:
        down, slot = _flipped(down, stored[1]), slot[::-1]
    return across, down, slot


def _flipped(span: Span, length: int) -> Span:
    start = length - span.start - span.extent
    return Span(start, span.extent, length - span.high, length - span.low, span.size)


def tagged(jpeg: bytes, orientation: int) -> bytes:
    """A JPEG whose first segment is EXIF data that say nothing but its orientation."""
    marker, length, entry = 0xFFE1, _EXIF.size - 2, (0x0112, 3, 1, orientation, 0)
    tiff = (b"MM", 42, 8, 1, *entry, 0)
    return jpeg[:2] + _EXIF.pack(marker, length, b"Exif\0\0", *tiff) + jpeg[2:]
