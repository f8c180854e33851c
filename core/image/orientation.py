"""Turns pictures upright while they are written: no pixel is moved twice.

A view speaks of the upright picture, a decoder of the stored one. The EXIF orientation says how the
axes of the two relate; the slot is seen through the same change of axes.
"""

from ddlp.core.image.backend import Slot
from ddlp.core.image.resize import Span

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
