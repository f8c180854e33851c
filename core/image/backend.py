"""What an engine's lower half does: from encoded bytes to the pixels of one slot of a batch.

There are two, with the same bits: `reference`, plain Python that defines them, and `fused`, in C.
Another decoder is one more method beside `render_jpeg`, over the same resampling.
"""

import os
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ddlp.core.feistel import Words
from ddlp.core.image.head import ImageHead
from ddlp.core.image.resize import Pixels, Span

Slot = npt.NDArray[Any]
"""Where pixels go: (height, width, 3) of uint8 or float32, with any strides: a mirrored or turned
picture is written through a mirrored or transposed view of the batch's memory."""

Floats = npt.NDArray[np.float32]


Size = tuple[int, int]
"""Width and height of a picture as it is stored."""


@dataclass(frozen=True)
class FilePart:
    """Bytes of an open file, of which no more is read than is needed."""

    descriptor: int
    start: int
    size: int

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        return read_fully(self.descriptor, self.start, self.size)


Encoded = bytes | FilePart
"""A sample as it is stored."""


def read_fully(descriptor: int, start: int, size: int) -> bytes:
    """Exactly so many bytes from a place of an open file; a ValueError where it is shorter."""
    data = os.pread(descriptor, size, start)
    while len(data) < size:
        more = os.pread(descriptor, size - len(data), start + len(data))
        if not more:
            raise ValueError("it ends too soon")
        data += more
    return data


@dataclass(frozen=True)
class Levels:
    """Turns a level of a channel into a float: level · multiply + add, in single precision."""

    multiply: npt.NDArray[np.float32]
    add: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Crops:
    """Whole-pixel cuts out of images of one size; black where a cut reaches over an edge."""

    samples: npt.NDArray[np.int64]
    left: npt.NDArray[np.int64]
    top: npt.NDArray[np.int64]
    mirrored: npt.NDArray[np.bool_]


class Backend(Protocol):
    """The two engines' common interface."""

    name: str

    def walk(self, data: bytes) -> ImageHead:
        """The head of a complete JPEG file, or BadSample."""

    def render_jpeg(
        self,
        data: bytes,
        size: Size,
        across: Span,
        down: Span,
        slot: Slot,
        levels: Levels | None,
    ) -> None:
        """Decode what a view shows of a JPEG of this size and resample it into a slot."""

    def render_reduced_jpeg(
        self,
        data: bytes,
        size: Size,
        across: Span,
        down: Span,
        slot: Slot,
        levels: Levels | None,
    ) -> None:
        """As `render_jpeg`, from a picture that the inverse DCT already makes smaller."""

    def render_record(
        self,
        data: Encoded,
        size: Size,
        across: Span,
        down: Span,
        slot: Slot,
        levels: Levels | None,
    ) -> None:
        """As `render_jpeg`, from the packed record of a JPEG: the same pixels."""

    def render_reduced_record(
        self,
        data: Encoded,
        size: Size,
        across: Span,
        down: Span,
        slot: Slot,
        levels: Levels | None,
    ) -> None:
        """As `render_reduced_jpeg`, from the packed record of a JPEG: the same pixels."""

    def read_so_far(self) -> tuple[float, int]:
        """Seconds and bytes that this thread has spent on reading records from files."""

    def pack_record(self, data: bytes, keep_head: bool) -> bytes | None:
        """The record of a JPEG, checked to give the same pixels; None where it cannot be one."""

    def record_jpeg(self, data: Encoded) -> bytes:
        """A JPEG with the coefficients of a record."""

    def render_pixels(
        self, pixels: Pixels, across: Span, down: Span, slot: Slot, levels: Levels | None
    ) -> None:
        """Resample what a view shows of decoded pixels into a slot."""

    def cut(self, pixels: Pixels, crops: Crops, slots: Slot, levels: Levels | None) -> None:
        """Cut a batch out of an array of images."""

    def floats(self, pixels: Pixels, levels: Levels, out: Floats) -> None:
        """Turn pixels (…, 3) into floats of the same shape, both row by row without gaps."""

    def uniforms(
        self, key: tuple[int, int], epoch: int, samples: npt.NDArray[np.int64], count: int
    ) -> npt.NDArray[np.float64]:
        """`count` numbers in [0, 1) for each sample (see `core.randomness`)."""

    def permuted(self, places: Words, keys: Words, count: int) -> Words:
        """Where places of 0..count-1 lead in a seeded order (see `core.feistel`)."""


def check_floats(pixels: Pixels, out: Floats) -> None:
    """Raise unless pixels can be turned into floats in one go."""
    sound = pixels.dtype == np.uint8 and out.dtype == np.float32 and pixels.shape == out.shape
    if not sound or pixels.shape[-1:] != (3,):
        raise TypeError("pixels are (…, 3) of uint8, and their floats are of the same shape")
    if not (pixels.flags.c_contiguous and out.flags.carray):
        raise TypeError("pixels and their floats must lie row by row, without gaps")


def reduction_for(across: Span, down: Span) -> int:
    """By how much the inverse DCT may reduce (1, 2, 4, 8) and still leave as much as is shown."""
    reduction = 8
    while reduction > 1 and (
        across.extent < reduction * across.size or down.extent < reduction * down.size
    ):
        reduction //= 2
    return reduction


def reduced(span: Span, reduction: int, length: int) -> Span:
    """A span in the pixels of a picture reduced from `length` pixels along this axis."""
    shorter = -(-length // reduction)
    low = min(span.low // reduction, shorter - 1)
    high = min(-(-span.high // reduction), shorter)
    return Span(span.start / reduction, span.extent / reduction, low, high, span.size)
