"""Shows views of a dataset's pictures: reads, decodes and resamples, by whatever way is fastest."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ddlp.core.dataset import DatasetIndex, Heads
from ddlp.core.dataset.files import CHANGED
from ddlp.core.errors import BadSample, DdlpError, SystemFault
from ddlp.core.image import (
    MAX_SIDE,
    Crops,
    Encoded,
    Kind,
    Levels,
    Pixels,
    Slot,
    Span,
    backend,
    pillow,
)
from ddlp.core.image.head import check_size
from ddlp.core.image.orientation import as_stored
from ddlp.core.image.reference import put
from ddlp.core.passing import failed_words, is_passing
from ddlp.core.patience import fault_of
from ddlp.core.pipeline.placing import Placed, part_of, rows
from ddlp.core.pipeline.transforms import Decode
from ddlp.core.pipeline.views import Views
from ddlp.core.stages import PictureTimes

Ints = npt.NDArray[np.int64]
RenderEncoded = Callable[[Any, tuple[int, int], Span, Span, Slot, Levels | None], None]


class Pictures:
    """The samples of a dataset as pictures."""

    def __init__(self, index: DatasetIndex, decode: Decode) -> None:
        self._index = index
        self._decode = decode
        self._backend = backend()
        self.times = PictureTimes()

    def sizes(self, samples: Ints) -> tuple[Ints, Ints]:
        """Widths and heights of the pictures as they are seen."""
        heads = self._index.heads(samples)
        turned = (heads.orientation >= 5) & self._decode.orient
        return (
            np.where(turned, heads.height, heads.width),
            np.where(turned, heads.width, heads.height),
        )

    def show(self, samples: Ints, views: Views, out: Slot, levels: Levels | None) -> dict[int, str]:
        """Fill a slot a sample; says which could not be filled, and why."""
        if self._index.pixels_shape is not None:
            self._show_pixels(samples, views, out, levels)
            return {}
        problems: dict[int, str] = {}
        heads = _heads(self._index.heads(samples))
        began_s = time.monotonic()
        self._index.expect(samples)
        self.times.fetch_s += time.monotonic() - began_s
        read_s, read_bytes = self._backend.read_so_far()
        for place, (sample, head, placed) in enumerate(
            zip(samples.tolist(), heads, rows(views), strict=True)
        ):
            show = partial(self._show_one, sample, head, placed, out[place], levels)
            reading = partial(self._reading, sample, show)
            try:
                self._index.patience.wait_out_unless_lost(
                    reading, self._index.another(sample), self._index.relax
                )
            except BadSample as error:
                problems[place] = str(error)
            except SystemFault as fault:
                if not fault.perhaps_lost:
                    raise
                problems[place] = str(fault)
        self._count_records(read_s, read_bytes)
        return problems

    def _count_records(self, read_s: float, read_bytes: int) -> None:
        """What the kernel has read itself while it decoded is not decoding."""
        now_s, now_bytes = self._backend.read_so_far()
        self.times.fetch_s += now_s - read_s
        self.times.decode_s -= now_s - read_s
        self.times.fetched_bytes += now_bytes - read_bytes

    def _show_pixels(self, samples: Ints, views: Views, out: Slot, levels: Levels | None) -> None:
        began_s = time.monotonic()
        try:
            pixels = self._index.patience.call("open", self._index.root, self._index.pixels)
        except (ValueError, FileNotFoundError) as error:
            raise BadSample(f"{self._index.root}: {pillow.reason_of(error)}") from error
        except OSError as error:
            raise DdlpError(failed_words(error, "open", self._index.root)) from error
        crops = _whole_pixel_crops(samples, views, pixels.shape[2], pixels.shape[1])
        if crops is not None:
            self._backend.cut(pixels, crops, out, levels)
        else:
            for place, placed in enumerate(rows(views)):
                show_pixels(pixels[samples[place]], placed, out[place], levels)
        if self._index.pixels_lost:
            raise BadSample(f"{self._index.root}: {CHANGED}")
        # Mapped pixels are read as they are cut out: that is one and the same here.
        self.times.decode_s += time.monotonic() - began_s
        self.times.fetched_bytes += len(samples) * pixels[0].nbytes

    def _show_one(
        self, sample: int, head: "Head", placed: Placed, slot: Slot, levels: Levels | None
    ) -> None:
        part = _on_black(slot, placed, levels)
        if part is None:
            return
        self._check(head)
        began_s = time.monotonic()
        data = self._read(sample)
        if head.kind != Kind.RECORD:
            data = bytes(data)
            self.times.fetched_bytes += len(data)
        started_s = time.monotonic()
        self.times.fetch_s += started_s - began_s
        try:
            render(data, head, placed, part, levels, self._decode)
        finally:
            decode_s = time.monotonic() - started_s
            self.times.decode_s += decode_s
        if decode_s > self._decode.max_seconds:
            raise BadSample(too_long(self._decode.max_seconds))

    def _reading(self, sample: int, show: Callable[[], None]) -> None:
        """Show a sample; whatever refuses to give its bytes is named with it."""
        try:
            show()
        except OSError as error:
            name = self._index.name(sample)
            if is_passing(error):
                raise fault_of(error, "read", name) from error
            raise DdlpError(failed_words(error, "read", name)) from error

    def _check(self, head: "Head") -> None:
        if head.width * head.height > self._decode.max_pixels:
            raise BadSample(
                f"it has {head.width} × {head.height} pixels, more than {self._decode.max_pixels:,}"
            )
        if head.nbytes > self._decode.max_bytes:
            raise BadSample(f"it has {head.nbytes} bytes, more than {self._decode.max_bytes}")
        if max(head.width, head.height) > MAX_SIDE:
            raise BadSample(f"it is {head.width} × {head.height} pixels; a side has {MAX_SIDE:,}")

    def _read(self, sample: int) -> Encoded:
        try:
            data = self._index.encoded(sample)
        except FileNotFoundError as error:
            if not self._index.root.exists():
                raise DdlpError(f"{self._index.root} is not there; is it mounted?") from error
            raise BadSample("it is gone") from error
        except ValueError as error:
            raise BadSample(str(error)) from error
        if not data:
            raise BadSample("it is empty")
        return data


class Head(NamedTuple):
    """One row of `Heads`, as plain numbers."""

    kind: int
    width: int
    height: int
    orientation: int
    nbytes: int


def _heads(heads: Heads) -> Iterator[Head]:
    columns = (heads.kind, heads.width, heads.height, heads.orientation, heads.nbytes)
    return map(Head._make, zip(*(column.tolist() for column in columns), strict=True))


def render(
    data: Encoded,
    head: Head,
    placed: Placed,
    part: Slot,
    levels: Levels | None,
    decode: Decode,
) -> None:
    """Decode what a view shows of encoded bytes, and resample it into a part of a slot."""
    size = head.width, head.height
    orientation = head.orientation if decode.orient else 1
    across, down, part = as_stored(orientation, placed.across, placed.down, part, size)
    encoded = data if head.kind == Kind.RECORD else bytes(data)
    if head.kind in (Kind.JPEG, Kind.RECORD):
        _renderer(head.kind, decode.dct_scaling)(encoded, size, across, down, part, levels)
        return
    pixels = pillow.decode(bytes(encoded))
    check_size((pixels.shape[1], pixels.shape[0]), size)
    backend().render_pixels(pixels, across, down, part, levels)


def _renderer(kind: int, reduced: bool) -> RenderEncoded:
    engine = backend()
    if kind == Kind.RECORD:
        return engine.render_reduced_record if reduced else engine.render_record
    return engine.render_reduced_jpeg if reduced else engine.render_jpeg


def too_long(limit_s: float) -> str:
    """Why a sample that takes too long to decode is bad."""
    return f"decoding it took longer than {limit_s:g} s"


def show_pixels(pixels: Pixels, placed: Placed, slot: Slot, levels: Levels | None) -> None:
    """Fill a slot with a view of decoded pixels."""
    part = _on_black(slot, placed, levels)
    if part is not None:
        backend().render_pixels(pixels, placed.across, placed.down, part, levels)


def _on_black(slot: Slot, placed: Placed, levels: Levels | None) -> Slot | None:
    """The part of a slot to be filled, the rest made black; None where all of it is black."""
    if not placed.whole_frame:
        put(slot, np.zeros(3, dtype=np.uint8), levels)
        if not placed.width or not placed.height:
            return None
    return part_of(slot, placed)


def _whole_pixel_crops(samples: Ints, views: Views, width: int, height: int) -> Crops | None:
    """Views as cuts at whole pixels, if that is what all of them are."""
    frame_width, frame_height = views.frame_width, views.frame_height
    left = np.where(
        views.mirrored, views.left + views.width + views.x - frame_width, views.left - views.x
    )
    top = views.top - views.y
    same_scale = (views.box_width == views.width) & (views.box_height == views.height)
    # Black stands only where the cut reaches over the picture's edge, not where a crop ended.
    inside = (
        (np.maximum(left, 0) == views.left)
        & (np.minimum(left + frame_width, width) == views.left + views.width)
        & (np.maximum(top, 0) == views.top)
        & (np.minimum(top + frame_height, height) == views.top + views.height)
    )
    whole = (np.floor(left) == left) & (np.floor(top) == top)
    if not (same_scale & inside & whole).all():
        return None
    return Crops(samples, left.astype(np.int64), top.astype(np.int64), views.mirrored)
