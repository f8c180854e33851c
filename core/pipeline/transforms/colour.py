"""The arithmetic of colour: levels as planes of single precision that hold whole numbers.

Every step ends in whole levels from 0 to 255, and all that lies between is one IEEE operation after
the other, so every machine gets the same levels. They are those of Pillow's ImageEnhance.
"""

import numpy as np
import numpy.typing as npt

Planes = npt.NDArray[np.float32]
"""(3, pixels): red, green, blue. One colour after the other is several times faster than mixed."""
Plane = npt.NDArray[np.float32]

_RED, _GREEN, _BLUE = (np.float32(share) for share in (19595, 38470, 7471))
_HALF, _PART = np.float32(1 << 15), np.float32(1 / (1 << 16))
_TOP = np.float32(255)


def planes_of(image: npt.NDArray[np.uint8]) -> Planes:
    """The levels of an image (height, width, 3), one plane a channel."""
    return np.ascontiguousarray(image.reshape(-1, 3).T).astype(np.float32)


def put_planes(planes: Planes, image: npt.NDArray[np.uint8]) -> None:
    """Write planes back into an image."""
    levels = planes.astype(np.uint8).reshape(3, *image.shape[:2])
    for channel in range(3):
        image[..., channel] = levels[channel]


def luma(planes: Planes) -> Plane:
    """How bright each pixel is: the weights of ITU-R BT.601, rounded as in Pillow's mode "L".

    The weights are of 65,536, and no sum exceeds 24 bits: single precision holds them exactly.
    """
    total: Plane = planes[0] * _RED
    total += planes[1] * _GREEN
    total += planes[2] * _BLUE
    total += _HALF
    total *= _PART
    np.floor(total, out=total)
    return total


def brighten(planes: Planes, factor: float) -> None:
    """Blend with black, in place."""
    planes *= np.float32(factor)
    _whole_levels(planes)


def contrast(planes: Planes, factor: float) -> None:
    """Blend with the mean of the grey image, in place."""
    grey, pixels = luma(planes), planes.shape[1]
    total = int(grey.sum(dtype=np.float64))
    _blend(planes, np.float32((2 * total + pixels) // (2 * pixels)), factor)


def saturate(planes: Planes, factor: float) -> None:
    """Blend with the grey image, in place."""
    _blend(planes, luma(planes), factor)


def _blend(planes: Planes, other: Plane | np.float32, factor: float) -> None:
    planes -= other
    planes *= np.float32(factor)
    planes += other
    _whole_levels(planes)


def _whole_levels(planes: Planes) -> None:
    np.clip(planes, np.float32(0), _TOP, out=planes)
    np.floor(planes, out=planes)
