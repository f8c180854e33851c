"""The engine in plain Python: slow, readable, and the definition of what the fused one gives."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ddlp.core.errors import BadSample, InvalidInput
from ddlp.core.feistel import Words, permuted
from ddlp.core.image import pillow
from ddlp.core.image.arithmetic import ARITHMETIC
from ddlp.core.image.backend import (
    Crops,
    Encoded,
    Floats,
    Levels,
    Size,
    Slot,
    check_floats,
    reduced,
    reduction_for,
)
from ddlp.core.image.equivalent import jpeg_of
from ddlp.core.image.head import ImageHead, Kind, check_size
from ddlp.core.image.jpeg import TRUNCATED, walk
from ddlp.core.image.record import Layout, Tiles, parse
from ddlp.core.image.resize import Pixels, Span, resize
from ddlp.core.image.seen import tiles_seen
from ddlp.core.randomness import uniforms

_STRETCH = 1 << 16
"""Pixels of a batch that are turned into floats at a time."""


class Reference:
    """Pillow decodes, numpy does the rest."""

    name = f"reference-{ARITHMETIC}"

    def walk(self, data: bytes) -> ImageHead:
        """The head of a complete JPEG file."""
        head = walk(data)
        if head is None:
            raise BadSample(TRUNCATED)
        return head

    def render_jpeg(
        self,
        data: bytes,
        size: Size,
        across: Span,
        down: Span,
        slot: Slot,
        levels: Levels | None,
    ) -> None:
        """Decode all of it, then resample the part that is seen."""
        self._check(data, size)
        self.render_pixels(pillow.decode(data), across, down, slot, levels)

    def render_reduced_jpeg(
        self,
        data: bytes,
        size: Size,
        across: Span,
        down: Span,
        slot: Slot,
        levels: Levels | None,
    ) -> None:
        """Decode all of it at the reduced size, then resample."""
        self._check(data, size)
        reduction = reduction_for(across, down)
        pixels = pillow.decode(data, reduction)
        across, down = reduced(across, reduction, size[0]), reduced(down, reduction, size[1])
        self.render_pixels(pixels, across, down, slot, levels)

    def render_record(
        self,
        data: Encoded,
        size: Size,
        across: Span,
        down: Span,
        slot: Slot,
        levels: Levels | None,
    ) -> None:
        """Make it a JPEG again, and decode that."""
        jpeg = _jpeg_seen(data, size, across, down, 1)
        self.render_jpeg(jpeg, size, across, down, slot, levels)

    def render_reduced_record(
        self,
        data: Encoded,
        size: Size,
        across: Span,
        down: Span,
        slot: Slot,
        levels: Levels | None,
    ) -> None:
        """Make it a JPEG again, and decode that at the reduced size."""
        reduction = reduction_for(across, down)
        smaller = reduced(across, reduction, size[0]), reduced(down, reduction, size[1])
        jpeg = _jpeg_seen(data, size, *smaller, reduction)
        self.render_reduced_jpeg(jpeg, size, across, down, slot, levels)

    def read_so_far(self) -> tuple[float, int]:
        """Not told apart here: to unpack a record takes far longer than to read it."""
        return 0.0, 0

    def pack_record(self, data: bytes, keep_head: bool) -> bytes | None:
        """Nothing in Python gives the coefficients of a JPEG."""
        raise InvalidInput(
            "packing needs the kernel, which cannot be used here; ddlp doctor says why"
        )

    def record_jpeg(self, data: Encoded) -> bytes:
        """Part by part, as docs/records.md says."""
        return jpeg_of(parse(_whole(data)))

    def _check(self, data: bytes, size: Size) -> None:
        head = self.walk(data)
        if head.kind is not Kind.JPEG:
            raise BadSample("it is a JPEG of another kind than when it was indexed")
        check_size((head.width, head.height), size)

    def render_pixels(
        self, pixels: Pixels, across: Span, down: Span, slot: Slot, levels: Levels | None
    ) -> None:
        """Resample in whole numbers, then turn levels into floats where that is asked for."""
        put(slot, resize(pixels, across, down), levels)

    def cut(self, pixels: Pixels, crops: Crops, slots: Slot, levels: Levels | None) -> None:
        """One image after the other, through a black frame of the size of the cut."""
        height, width = slots.shape[1:3]
        for place, sample in enumerate(crops.samples):
            image = pixels[sample]
            left, top = int(crops.left[place]), int(crops.top[place])
            framed = np.zeros((height, width, 3), dtype=np.uint8)
            x, y = max(0, -left), max(0, -top)
            seen = image[max(0, top) : max(0, top + height), max(0, left) : max(0, left + width)]
            framed[y : y + seen.shape[0], x : x + seen.shape[1]] = seen
            put(slots[place], framed[:, ::-1] if crops.mirrored[place] else framed, levels)

    def floats(self, pixels: Pixels, levels: Levels, out: Floats) -> None:
        """A stretch at a time, so that what lies between the two stays small."""
        check_floats(pixels, out)
        shown, made = pixels.reshape(-1, 3), out.reshape(-1, 3)
        for at in range(0, len(shown), _STRETCH):
            put(made[at : at + _STRETCH], shown[at : at + _STRETCH], levels)

    def uniforms(
        self, key: tuple[int, int], epoch: int, samples: npt.NDArray[np.int64], count: int
    ) -> npt.NDArray[np.float64]:
        """Computed a round at a time for the whole batch."""
        return uniforms(key, epoch, samples, count)

    def permuted(self, places: Words, keys: Words, count: int) -> Words:
        """Computed a round at a time for the whole slice."""
        return permuted(places, keys, count)


def _jpeg_seen(data: Encoded, size: Size, across: Span, down: Span, reduction: int) -> bytes:
    """The tiles that a view needs, without the head that may be kept: it must change no pixels."""

    def seen(layout: Layout) -> Tiles:
        check_size((layout.width, layout.height), size)
        return tiles_seen(layout, across, down, reduction)

    return jpeg_of(replace(parse(_whole(data), seen), head=b""))


def _whole(data: Encoded) -> bytes:
    try:
        return bytes(data)
    except ValueError as error:
        raise BadSample(str(error)) from None


def put(slot: Slot, shown: Pixels, levels: Levels | None) -> None:
    """Write levels into a slot, as they are or as floats."""
    slot[:] = shown if levels is None else shown.astype(np.float32) * levels.multiply + levels.add
