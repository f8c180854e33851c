"""The engine in C: libjpeg-turbo decodes just what a view shows, straight into a batch's slot."""

import numpy as np
import numpy.typing as npt

from ddlp.core.errors import BadSample
from ddlp.core.feistel import Words, bits_for
from ddlp.core.image import _fused
from ddlp.core.image.arithmetic import ARITHMETIC
from ddlp.core.image.backend import Crops, Encoded, Floats, Levels, Size, Slot, check_floats
from ddlp.core.image.head import ImageHead, Kind
from ddlp.core.image.reference import Reference
from ddlp.core.image.resize import Pixels, Span

if _fused.ARITHMETIC != ARITHMETIC:
    raise ImportError(
        f"it was built for revision {_fused.ARITHMETIC} of the arithmetic, this is {ARITHMETIC}; "
        "build it again: make setup, or pip install"
    )

_REFERENCE = Reference()
"""Takes what the kernel leaves: progressive files that lack scans."""


class Fused:
    """The kernel's functions, with the reference's bits."""

    name = f"fused-{ARITHMETIC}"

    def walk(self, data: bytes) -> ImageHead:
        """The head of a complete JPEG file."""
        try:
            usual, width, height, orientation = _fused.walk(data)
        except ValueError as error:
            raise BadSample(str(error)) from None
        return ImageHead(Kind.JPEG if usual else Kind.OTHER, width, height, orientation)

    def render_jpeg(
        self,
        data: bytes,
        size: Size,
        across: Span,
        down: Span,
        slot: Slot,
        levels: Levels | None,
    ) -> None:
        """Decode the rows and columns that are seen, resampling them as they come."""
        try:
            _fused.jpeg(data, size, _span(across), _span(down), False, slot, _levels(levels))
        except ValueError as error:
            raise BadSample(str(error)) from None
        except NotImplementedError:
            _REFERENCE.render_jpeg(data, size, across, down, slot, levels)

    def render_reduced_jpeg(
        self,
        data: bytes,
        size: Size,
        across: Span,
        down: Span,
        slot: Slot,
        levels: Levels | None,
    ) -> None:
        """The same from a picture that the inverse DCT made smaller."""
        try:
            _fused.jpeg(data, size, _span(across), _span(down), True, slot, _levels(levels))
        except ValueError as error:
            raise BadSample(str(error)) from None
        except NotImplementedError:
            _REFERENCE.render_reduced_jpeg(data, size, across, down, slot, levels)

    def render_record(
        self,
        data: Encoded,
        size: Size,
        across: Span,
        down: Span,
        slot: Slot,
        levels: Levels | None,
    ) -> None:
        """Unpack the tiles that are seen, resampling their rows as they come."""
        _render_record(data, size, across, down, False, slot, levels)

    def render_reduced_record(
        self,
        data: Encoded,
        size: Size,
        across: Span,
        down: Span,
        slot: Slot,
        levels: Levels | None,
    ) -> None:
        """The same; a picture that the inverse DCT reduces is first made a JPEG again."""
        _render_record(data, size, across, down, True, slot, levels)

    def read_so_far(self) -> tuple[float, int]:
        """As the kernel has counted."""
        return _fused.read_so_far()

    def pack_record(self, data: bytes, keep_head: bool) -> bytes | None:
        """Pack it, decode both, and compare."""
        try:
            return _fused.pack(data, keep_head)
        except (ValueError, NotImplementedError):
            return None

    def record_jpeg(self, data: Encoded) -> bytes:
        """A JPEG with the coefficients of a record."""
        try:
            return _fused.record_jpeg(bytes(data))
        except ValueError as error:
            raise BadSample(str(error)) from None

    def render_pixels(
        self, pixels: Pixels, across: Span, down: Span, slot: Slot, levels: Levels | None
    ) -> None:
        """Resample decoded pixels."""
        plain = np.ascontiguousarray(pixels)
        _fused.pixels(plain, _span(across), _span(down), slot, _levels(levels))

    def cut(self, pixels: Pixels, crops: Crops, slots: Slot, levels: Levels | None) -> None:
        """The whole batch in one call."""
        columns = (crops.samples, crops.left, crops.top, crops.mirrored)
        samples, left, top, mirrored = map(np.ascontiguousarray, columns)
        _fused.cut(pixels, samples, left, top, mirrored, slots, _levels(levels))

    def floats(self, pixels: Pixels, levels: Levels, out: Floats) -> None:
        """The whole batch in one call."""
        check_floats(pixels, out)
        _fused.floats(pixels, _levels(levels), out)

    def uniforms(
        self, key: tuple[int, int], epoch: int, samples: npt.NDArray[np.int64], count: int
    ) -> npt.NDArray[np.float64]:
        """The whole batch in one call."""
        drawn = np.empty((len(samples), count))
        _fused.uniforms(*key, epoch & 0xFFFFFFFF, np.ascontiguousarray(samples), drawn)
        return drawn

    def permuted(self, places: Words, keys: Words, count: int) -> Words:
        """The whole slice in one call."""
        led = places.copy()
        _fused.permute(led, np.ascontiguousarray(keys), bits_for(count), count)
        return led


def _render_record(
    data: Encoded,
    size: Size,
    across: Span,
    down: Span,
    reduce: bool,
    slot: Slot,
    levels: Levels | None,
) -> None:
    view = size, _span(across), _span(down), reduce, slot, _levels(levels)
    try:
        if isinstance(data, bytes):
            _fused.record(data, *view)
        else:
            _fused.record_at((data.descriptor, data.start, data.size), *view)
    except ValueError as error:
        raise BadSample(str(error)) from None


def _span(span: Span) -> tuple[float, float, int, int, int]:
    return span.start, span.extent, span.low, span.high, span.size


def _levels(levels: Levels | None) -> npt.NDArray[np.float32] | None:
    return None if levels is None else np.concatenate([levels.multiply, levels.add])
