"""Decoding by Pillow: every format but the usual JPEG, and that too where there is no kernel."""

import io
import os
import re
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from ddlp.core.errors import BadSample
from ddlp.core.image.head import ImageHead, Kind
from ddlp.core.image.resize import Pixels

MAX_PIXELS = 178_956_970
"""What Pillow opens at the most, and so what any engine takes."""

_ORIENTATION = 0x0112
_BITS, _DEEP, _FLOAT = 8, 16, 1000
_MOST_LEVEL, _MOST_DEEP_LEVEL = 255, 65535
_DEEP_RAW = re.compile(";16[BLN]")
"""How Pillow names channels of 16 bits; "BGR;16" has as many bits in a pixel."""
_BITS_PER_SAMPLE, _SAMPLE_FORMAT, _SUBFILE, _PHOTOMETRIC = 258, 339, 254, 262
_WHITE_IS_ZERO = 0
_SAMPLE_FLOAT = 3
_SMALLER, _MASK = 1, 4
_SEQUENCES = frozenset({"GIF", "WEBP", "PNG", "TIFF", "AVIF"})
_MOST_PAGES = 100


def pillow_head(data: bytes) -> ImageHead:
    """The head of an image of any format that Pillow knows."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            _check_single(image)
            size, bits = image.size, _bits_taken(image)
            return ImageHead(Kind.OTHER, *size, _orientation(image), bits)
    except MemoryError:
        raise
    except Exception as error:  # the border to the decoder, which raises whatever it likes
        raise BadSample(reason_of(error)) from error


def _bits_taken(image: Image.Image) -> int:
    """Bits of a channel, 8 or 16; refuses what would lose more on its way to 8-bit RGB."""
    bits = _bits(image)
    if bits == _DEEP and image.mode == "I" and image.format == "TIFF":
        kind = f"signed, of {bits} bits per channel"
    elif bits <= _BITS or bits == _DEEP:
        return max(bits, _BITS)
    else:
        kind = "floating point" if bits == _FLOAT else f"{bits} bits per channel"
    raise BadSample(f"its pixels are {kind}; DDLP takes 8 or 16 unsigned bits: convert it")


def _check_single(image: Image.Image) -> None:
    pictures = _pictures(image)
    if pictures > 1:
        what = "pages" if image.format == "TIFF" else "frames"
        raise BadSample(f"it holds {pictures} {what}; DDLP takes single pictures: save one of them")


def _bits(image: Image.Image) -> int:
    """Bits of a channel as the file has them; Pillow's mode does not always tell."""
    if image.mode == "F":
        return _FLOAT
    if image.format == "TIFF":
        tags: Any = image.tag_v2  # type: ignore[attr-defined]
        if _SAMPLE_FLOAT in tags.get(_SAMPLE_FORMAT, ()):
            return _FLOAT
        return int(max(tags.get(_BITS_PER_SAMPLE, (1,))))
    if image.format == "PPM":
        return _BITS if _pnm_maximum(image) <= _MOST_LEVEL else _DEEP
    raw = " ".join(str(tile[3]) for tile in getattr(image, "tile", ()))
    if image.mode.startswith("I;16") or _DEEP_RAW.search(raw):
        return _DEEP
    return 32 if image.mode == "I" else _BITS


def _pnm_maximum(image: Image.Image) -> int:
    """The level of white that the head of a PGM or PPM names."""
    for tile in getattr(image, "tile", ()):
        if tile[0].startswith("ppm"):
            return int(tile[3][-1])
    return _MOST_DEEP_LEVEL if image.mode == "I" else _MOST_LEVEL


def _pictures(image: Image.Image) -> int:
    """How many pictures a file holds, without the smaller copies and masks of a TIFF."""
    count = int(getattr(image, "n_frames", 1))
    if image.format != "TIFF" or count == 1:
        return count if image.format in _SEQUENCES else 1
    found = 1
    for number in range(1, min(count, _MOST_PAGES)):
        image.seek(number)
        kind = image.tag_v2.get(_SUBFILE, 0)  # type: ignore[attr-defined]
        found += not kind & (_SMALLER | _MASK)
    image.seek(0)
    return found


def _orientation(image: Image.Image) -> int:
    """What the head says; asking Pillow for all of EXIF would make it decode some files."""
    if image.format == "TIFF":  # Pillow turns these upright by itself
        return 1
    exif = Image.Exif()
    exif.load(image.info.get("exif", b""))
    found = exif.get(_ORIENTATION, 1)
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def decode(data: bytes, reduction: int = 1) -> Pixels:
    """The RGB pixels of an image as they are stored; `reduction` is that of a JPEG's DCT."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            if reduction > 1:
                image.draft(None, (image.width // reduction, image.height // reduction))
            return np.asarray(to_rgb(image))
    except MemoryError:
        raise
    except Exception as error:  # the border to the decoder, which raises whatever it likes
        raise BadSample(reason_of(error)) from error


def to_rgb(image: Image.Image) -> Image.Image:
    """The pixels of an image of any mode that is taken."""
    image = to_8_bits(image)
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of mode {image.mode} are not taken; convert it to 8 or 16 bits")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def to_8_bits(image: Image.Image) -> Image.Image:
    """The grey of an image of 16 bits at 8; any other image as it is.

    PGM is scaled by its maximum, as Pillow does PPM; of all else the upper byte is kept, as Pillow
    does of colours.
    """
    if image.mode == "I" and image.format == "PPM":
        levels = _pnm_levels(_pnm_maximum(image))[np.asarray(image)]
    elif image.mode.startswith("I;16"):
        levels = (np.asarray(image) >> 8).astype(np.uint8)
        if _is_white_zero(image):
            levels = _MOST_LEVEL - levels
    else:
        return image
    made = Image.fromarray(levels)
    made.info = image.info
    return made


def _pnm_levels(maximum: int) -> Pixels:
    """The level that each of Pillow's 16-bit levels stands for, which it scaled by the maximum."""
    scaled = np.arange(_MOST_DEEP_LEVEL + 1) / _MOST_DEEP_LEVEL
    stored = np.round(scaled * maximum)
    return np.round(stored / maximum * _MOST_LEVEL).astype(np.uint8)


def _is_white_zero(image: Image.Image) -> bool:
    """Whether a TIFF's levels are inverted, which Pillow minds at 8 bits only."""
    tags: Any = getattr(image, "tag_v2", {})
    return bool(tags.get(_PHOTOMETRIC, 1) == _WHITE_IS_ZERO)


def reason_of(error: Exception) -> str:
    """Why an image could not be decoded, in a sentence."""
    if isinstance(error, BadSample):
        return str(error)
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image of a known format"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
