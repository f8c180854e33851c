"""Decoding by Pillow: every format but the usual JPEG, and that too where there is no kernel."""

import io
import os

import numpy as np
from PIL import Image, UnidentifiedImageError

from ddlp.core.errors import BadSample
from ddlp.core.image.head import ImageHead, Kind
from ddlp.core.image.resize import Pixels

MAX_PIXELS = 178_956_970
"""What Pillow opens at the most, and so what any engine takes."""

_ORIENTATION = 0x0112


def pillow_head(data: bytes) -> ImageHead:
    """The head of an image of any format that Pillow knows."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            return ImageHead(Kind.OTHER, image.width, image.height, _orientation(image))
    except MemoryError:
        raise
    except Exception as error:  # the border to the decoder, which raises whatever it likes
        raise BadSample(reason_of(error)) from error


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
