"""Says what packing a dataset would come to, by packing a few of its samples in memory."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.layout import ROW, SampleRow, padding
from ddlp.core.errors import BadSample, InvalidInput
from ddlp.core.image import backend
from ddlp.core.image.orientation import is_turned
from ddlp.core.pipeline.pictures import Head, render
from ddlp.core.pipeline.placing import Placed, rows
from ddlp.core.pipeline.transforms import TRANSFORMS, Decode, Geometric
from ddlp.core.pipeline.views import Views
from ddlp.core.records.options import PackOptions
from ddlp.core.records.packing import check_packable
from ddlp.core.records.sample import PackedSample, pack_bytes, read_sample

_SIDE = 224
_CROPS = 3
"""Random crops that are decoded of each sample, as `imagenet-train` cuts them."""
_CHECKSUM_BYTES = 8


@dataclass(frozen=True)
class Forecast:
    """What packing a dataset would come to."""

    samples: int
    looked_at: int
    """Samples that were packed to find out."""
    origin_bytes: int
    bytes: int
    """What the shards would take up."""
    ratio: float
    """The one by the other."""
    record_share: float
    """Share of the samples that would become records."""
    pack_s: float
    """Seconds that packing all of it would take one core."""
    decode_us: float
    """Microseconds of a core to decode a random crop of a sample as it is now."""
    packed_decode_us: float
    """The same once it is packed."""

    @property
    def gain(self) -> float:
        """How many times faster samples are decoded once they are packed."""
        return self.decode_us / self.packed_decode_us


def forecast(
    index: DatasetIndex, options: PackOptions | None = None, samples: int = 64
) -> Forecast:
    """Pack samples from all over a dataset in memory, and decode them both ways."""
    options = options or PackOptions()
    check_packable(index, options)
    if samples < 1:
        raise InvalidInput(f"samples={samples} is not above 0")
    looks = list(_look_at(index, options, samples))
    if not looks:
        raise BadSample(f"none of {samples} samples of {index.root} can be read")
    before, after = sum(look.origin_bytes for look in looks), sum(look.bytes for look in looks)
    share = index.samples / len(looks)
    return Forecast(
        samples=index.samples,
        looked_at=len(looks),
        origin_bytes=index.total_bytes,
        bytes=round(index.total_bytes * after / before),
        ratio=after / before,
        record_share=sum(look.is_record for look in looks) / len(looks),
        pack_s=share * sum(look.pack_s for look in looks),
        decode_us=1e6 * sum(look.decode_s for look in looks) / len(looks),
        packed_decode_us=1e6 * sum(look.packed_decode_s for look in looks) / len(looks),
    )


@dataclass(frozen=True)
class _Look:
    """What one sample came to; seconds are those of a core."""

    origin_bytes: int
    bytes: int
    is_record: bool
    pack_s: float
    decode_s: float
    packed_decode_s: float


def _look_at(index: DatasetIndex, options: PackOptions, samples: int) -> Iterator[_Look]:
    for sample in np.unique(np.linspace(0, index.samples - 1, samples).astype(np.int64)).tolist():
        started_s = time.process_time()
        row, name = index.row(sample)
        try:
            data = read_sample(index, sample)
            packed = pack_bytes(data, row, options)
        except BadSample:
            continue
        pack_s = time.process_time() - started_s
        yield _Look(
            row.size,
            _stored_bytes(packed, name),
            packed.is_record,
            pack_s,
            _decode_s(data, row, sample),
            _decode_s(packed.data, packed.row, sample),
        )


def _stored_bytes(packed: PackedSample, name: bytes) -> int:
    size = len(packed.data)
    return size + padding(size) + ROW.itemsize + _CHECKSUM_BYTES + len(name)


def _decode_s(data: bytes, row: SampleRow, sample: int) -> float:
    """How long a random crop takes; a sample that is damaged takes what it takes to find out."""
    slot = np.empty((_SIDE, _SIDE, 3), dtype=np.uint8)
    head = Head(row.kind, row.width, row.height, row.orientation, len(data))
    taken_s = []
    for crop in _crops(row, sample):
        started_s = time.process_time()
        with contextlib.suppress(BadSample):
            render(data, head, crop, slot, None, Decode())
        taken_s.append(time.process_time() - started_s)
    return sum(taken_s) / len(taken_s)


def _crops(row: SampleRow, sample: int) -> Iterator[Placed]:
    step = TRANSFORMS["random-resized-crop"].model_validate({"size": _SIDE})
    assert isinstance(step, Geometric)
    turned = is_turned(row.orientation)
    width, height = (row.height, row.width) if turned else (row.width, row.height)
    whole = Views.whole(np.full(_CROPS, width), np.full(_CROPS, height))
    drawn = backend().uniforms((0, sample), 0, np.arange(_CROPS), step.draws)
    return rows(step.apply(whole, drawn))
