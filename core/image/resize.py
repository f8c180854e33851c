"""The resampling that every engine performs, written down in numpy: the definition of its bits.

Antialiased bilinear: Pillow's triangle filter, whose support grows with the reduction. Weights are
computed in IEEE double precision with basic operations only and then rounded to 14 bits; pixels
are integers from there on, so that no order of summation, no vector width and no fused
multiplication can change a bit. The vertical pass comes first and keeps 6 fractional bits.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

WEIGHT_BITS = 14
_ONE = 1 << WEIGHT_BITS
_KEPT_BITS = 6
"""Fractional bits between the passes: 8 + 6 fit into 15, a signed 16-bit lane's positive half."""


@dataclass(frozen=True)
class Span:
    """An axis of a view: `extent` pixels from `start`, read within [low, high), shown as `size`."""

    start: float
    extent: float
    low: int
    high: int
    size: int


def reach(span: Span) -> tuple[Ints, Ints]:
    """For each output place the first source place that is read, and the one after the last."""
    scale = span.extent / span.size
    support = max(scale, 1.0)
    centre = span.start + (np.arange(span.size) + 0.5) * scale
    first = np.floor(centre - support + 0.5).astype(np.int64).clip(span.low, span.high - 1)
    stop = np.floor(centre + support + 0.5).astype(np.int64).clip(first + 1, span.high)
    return first, stop


def filter_weights(span: Span) -> tuple[Ints, Ints]:
    """For each output place the first source place, and the weights from there on, adding to 2¹⁴.

    The weights have the shape (size, longest); a shorter row ends in zeros. Rounding is of the
    running sum, so that the errors of many small weights cancel instead of adding up.
    """
    scale = span.extent / span.size
    support = max(scale, 1.0)
    centre = span.start + (np.arange(span.size) + 0.5) * scale
    first, stop = reach(span)
    taps = np.arange(int((stop - first).max()))
    distance = np.abs((first[:, None] + taps) + 0.5 - centre[:, None])
    weights = np.maximum(1.0 - distance * (1.0 / support), 0.0)
    weights[taps >= (stop - first)[:, None]] = 0.0
    total = np.cumsum(weights, axis=1)
    weights[total[:, -1] <= 0, 0] = 1.0  # nothing in reach: the nearest pixel
    total = np.cumsum(weights, axis=1)
    rounded = np.floor(total * (_ONE / total[:, -1:]) + 0.5).astype(np.int64)
    rounded[taps >= (stop - first - 1)[:, None]] = _ONE
    return first, np.diff(rounded, axis=1, prepend=0)


def resize(pixels: Pixels, across: Span, down: Span) -> Pixels:
    """The part of an image that two spans name, at their sizes."""
    first, weights = filter_weights(down)
    rows = np.zeros((down.size, pixels.shape[1], 3), dtype=np.int64)
    for tap in range(weights.shape[1]):
        source = np.minimum(first + tap, down.high - 1)
        rows += pixels[source] * weights[:, tap, None, None]
    rows = (rows + (1 << (WEIGHT_BITS - _KEPT_BITS - 1))) >> (WEIGHT_BITS - _KEPT_BITS)
    first, weights = filter_weights(across)
    shown = np.zeros((down.size, across.size, 3), dtype=np.int64)
    for tap in range(weights.shape[1]):
        source = np.minimum(first + tap, across.high - 1)
        shown += rows[:, source] * weights[None, :, tap, None]
    bits = WEIGHT_BITS + _KEPT_BITS
    shown = (shown + (1 << (bits - 1))) >> bits
    return shown.clip(0, 255).astype(np.uint8)
