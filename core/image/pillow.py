"""Decoding by Pillow: every format but the usual JPEG, and that too where there is no kernel."""

import io
import os
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from ddlp.core.errors import BadSample
from ddlp.core.image.head import ImageHead, Kind
from ddlp.core.image.resize import Pixels

MAX_PIXELS = 178_956_970
"""What Pillow opens at the most, and so what any engine takes."""

_ORIENTATION = 0x0112
_BITS, _FLOAT = 8, 1000
_BITS_PER_SAMPLE, _SAMPLE_FORMAT, _SUBFILE = 258, 339, 254
_SAMPLE_FLOAT = 3
_SMALLER, _MASK = 1, 4
_SEQUENCES = frozenset({"GIF", "WEBP", "PNG", "TIFF", "AVIF"})
_MOST_PAGES = 100


def pillow_head(data: bytes) -> ImageHead:
    """The head of an image of any format that Pillow knows."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            _check_taken(image)
            return ImageHead(Kind.OTHER, image.width, image.height, _orientation(image))
    except MemoryError:
        raise
    except Exception as error:  # the border to the decoder, which raises whatever it likes
        raise BadSample(reason_of(error)) from error


def _check_taken(image: Image.Image) -> None:
    """Refuse what would lose more than transparency or a palette on its way to 8-bit RGB."""
    bits = _bits(image)
    if bits > _BITS:
        kind = "floating point" if bits == _FLOAT else f"{bits} bits per channel"
        raise BadSample(f"its pixels are {kind}; DDLP takes 8 bits: convert it")
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
    raw = " ".join(str(tile[3]) for tile in getattr(image, "tile", ()))
    if image.mode.startswith("I;16") or ";16" in raw:
        return 16
    return 32 if image.mode == "I" else _BITS


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
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of mode {image.mode} are not taken; convert it to 8 or 16 bits")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def reason_of(error: Exception) -> str:
    """Why an image could not be decoded, in a sentence."""
    if isinstance(error, BadSample):
        return str(error)
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image of a known format"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
