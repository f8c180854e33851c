"""Writes images of 16 bits per channel, which Pillow's encoders cannot in colour."""

import io
import struct
import zlib

import numpy as np
import numpy.typing as npt
from PIL import Image

Levels = npt.NDArray[np.uint16]
_PNG_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}


def all_levels() -> Levels:
    """Every level once, 256 × 256."""
    return np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)


def in_channels(levels: Levels, channels: int) -> Levels:
    """The same levels in each channel."""
    return np.stack([levels] * channels, axis=-1)


def png(levels: Levels) -> bytes:
    """A PNG of grey, of grey and alpha, of three colours, or of these and alpha."""
    channels = 1 if levels.ndim == 2 else levels.shape[2]
    head = struct.pack(">2I5B", *levels.shape[1::-1], 16, _PNG_COLOURS[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in levels)
    parts = (b"IHDR" + head, b"IDAT" + zlib.compress(rows), b"IEND")
    chunks = (struct.pack(">I", len(p) - 4) + p + struct.pack(">I", zlib.crc32(p)) for p in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def tiff(
    levels: Levels, order: str = "<", white_is_zero: bool = False, signed: bool = False
) -> bytes:
    """A TIFF of grey, or of three channels, little- (<) or big-endian (>)."""
    height, width = levels.shape[:2]
    channels = 1 if levels.ndim == 2 else levels.shape[2]
    photometric = 2 if channels == 3 else int(not white_is_zero)
    data = levels.astype(f"{order}u2").tobytes()
    entries = 9
    bits = 8 + 2 + 12 * entries + 4  # what does not fit into an entry lies behind them
    pixels = bits + 2 * channels
    tags = [
        (256, 1, width),
        (257, 1, height),
        (258, channels, 16 if channels == 1 else bits),
        (259, 1, 1),
        (262, 1, photometric),
        (273, 1, pixels),
        (277, 1, channels),
        (279, 1, len(data)),
        (339, 1, 2 if signed else 1),
    ]
    made = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HIH", 42, 8, entries)
    for tag, count, value in tags:
        kind = 4 if tag in (273, 279) or count > 1 else 3
        field = struct.pack(f"{order}I" if kind == 4 else f"{order}HH", *[value, 0][: 5 - kind])
        made += struct.pack(f"{order}HHI", tag, 3 if count > 1 else kind, count) + field
    made += bytes(4) + struct.pack(f"{order}{channels}H", *[16] * channels)
    return made + data


def pnm(levels: Levels, maximum: int, plain: bool = False) -> bytes:
    """A PGM, or of three channels a PPM, in bytes or in plain numbers."""
    number = (5 if levels.ndim == 2 else 6) - 3 * plain
    start = b"P%d %d %d %d\n" % (number, *levels.shape[1::-1], maximum)
    if plain:
        return start + b" ".join(b"%d" % level for level in levels.reshape(-1).tolist())
    return start + levels.astype(">u2").tobytes()


def jpeg2000(levels: Levels) -> bytes:
    """A lossless JPEG 2000 of grey."""
    out = io.BytesIO()
    Image.fromarray(levels).save(out, "JPEG2000")
    return out.getvalue()
