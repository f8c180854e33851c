"""Turns the hue of colours, by way of hue, saturation and value of 8 bits each.

The quantities are those of Pillow's mode "HSV". All that is computed are whole numbers, and
quotients of whole numbers that are then rounded down: exact in single precision, as no quotient
comes near enough to the next whole number to be rounded up to it.
"""

import numpy as np
import numpy.typing as npt

from ddlp.core.pipeline.transforms.colour import Plane, Planes

Levels = npt.NDArray[np.uint8]
Steps = npt.NDArray[np.int16]

_ONE, _TOP = np.float32(1), np.float32(255)
_FULL, _HALF = np.float32(255 * 255), np.float32(255 * 255 // 2)
_SIXTH = 255
"""The circle of hues has 6 · 255 steps: red at 0, green at 510, blue at 1020."""


def turn(planes: Planes, shift: int) -> None:
    """Turn all hues by `shift` of 256 parts of the circle, in place."""
    red, green, blue = planes
    value = np.maximum(np.maximum(red, green), blue)
    chroma = value - np.minimum(np.minimum(red, green), blue)
    hue = _hue(planes, value, chroma) + np.uint8(shift % 256)
    depth = np.floor(_TOP * chroma / np.maximum(value, _ONE)) * value
    for channel, down in enumerate(_descents(hue)):
        # value · (1 - saturation · descent), to the nearest level.
        fall = np.multiply(depth, down, out=planes[channel])
        fall += _HALF
        fall /= _FULL
        np.floor(fall, out=fall)
        np.subtract(value, fall, out=fall)


def _hue(planes: Planes, value: Plane, chroma: Plane) -> Levels:
    """The place on the circle in 255 parts, rounded down; 0 for grey."""
    red, green, blue = planes
    is_red = (red == value).astype(np.float32)
    is_green = (green == value).astype(np.float32)
    ahead: Plane = red - green
    ahead += 4 * chroma
    # Masks by multiplication: choosing by a condition that changes from pixel to pixel is slow.
    ahead += is_green * (blue - red + 2 * chroma - ahead)
    ahead += is_red * (green - blue - ahead)
    ahead *= _TOP
    ahead /= 6 * np.maximum(chroma, _ONE)
    parts: Steps = np.floor(ahead, out=ahead).astype(np.int16)
    parts += (parts < 0).astype(np.int16) * np.int16(255)
    return parts.astype(np.uint8)


def _descents(hue: Levels) -> tuple[Steps, Steps, Steps]:
    """How far each channel is down from the value, from 0 to 255.

    On the circle a channel stays up for a sixth on either side of its own colour, goes down
    within the next, and stays down.
    """
    place = hue.astype(np.int16) * np.int16(6)
    red = 2 * _SIXTH - np.abs(place - 3 * _SIXTH)
    green = np.abs(place - 2 * _SIXTH) - _SIXTH
    blue = np.abs(place - 4 * _SIXTH) - _SIXTH
    return red.clip(0, 255), green.clip(0, 255), blue.clip(0, 255)
