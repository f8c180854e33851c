"""The file of one finished batch: a fixed header, then tensors, each aligned to 4 KiB.

    0     magic "DDLPBTCH" · u32 version · u32 tensors · u32 epoch · u32 samples ·
          u64 index · u64 token · 16 bytes run · 32 bytes pipeline hash · 32 bytes engine ·
          64 bytes device · u64 payload bytes · u64 xxh3 of the payload as stored ·
          u64 xxh3 of the payload as it would be without compression · u64 fold · u32 flags
    512   one entry of 96 bytes a tensor: 16 bytes name · 8 bytes dtype · u32 dimensions ·
          u32 codec · 6 × u64 shape · u64 offset · u64 bytes as stored
    4088  u64 xxh3 of the header's first 4088 bytes
    4096  payload

All numbers are little-endian and nothing is ever unpickled. docs/batch-format.md is the full text.
"""

import math
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from ddlp.core import codecs
from ddlp.core.codecs import Codec
from ddlp.core.errors import DamagedBatch
from ddlp.core.fold import fold

MAGIC = b"DDLPBTCH"
VERSION = 2
PAGE_BYTES = 4096
_HEAD = struct.Struct("<8sIIIIQQ16s32s32s64sQQQQI")
_ENGINE_BYTES, _DEVICE_BYTES, _NAME_BYTES = 32, 64, 16
_FOLDED = 1
"""The flag that says that the header holds a fold."""
_TENSORS_AT = 512
_TENSOR = struct.Struct("<16s8sII6QQQ")
MAX_TENSORS = 32
_SUM = struct.Struct("<Q")
_SUM_AT = PAGE_BYTES - _SUM.size
DTYPES = ("<f4", "<f2", "<i8", "<i4", "|u1")
"""What tensors may be made of."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BatchId:
    """Which batch a file holds, for which lease, and who made it how."""

    run: uuid.UUID
    epoch: int
    index: int
    token: int
    samples: int
    pipeline: str
    engine: str
    device: str

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two batches the same, whoever made them."""
        return self.run, self.epoch, self.index, self.token, self.samples, self.pipeline


@dataclass(frozen=True)
class TensorSpec:
    """Name, element type and shape of one tensor of a batch."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes without padding."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)


@dataclass(frozen=True)
class Placed:
    """Where a tensor lies in a file, and how."""

    tensor: TensorSpec
    offset: int
    stored_bytes: int
    codec: Codec = Codec.OFF

    @property
    def end(self) -> int:
        """Where the next one may begin."""
        return aligned(self.offset + self.stored_bytes)


@dataclass(frozen=True)
class Head:
    """What the header of a file says."""

    batch: BatchId
    tensors: tuple[Placed, ...]
    payload_bytes: int
    stored_checksum: int
    checksum: int
    """Of the payload without compression: the same whoever made the batch, and how."""
    fold: int | None
    """Of the payload as stored: a checksum that an accelerator can take."""

    @property
    def nbytes(self) -> int:
        """Bytes of the whole file."""
        return PAGE_BYTES + self.payload_bytes


def aligned(nbytes: int) -> int:
    """The next multiple of 4 KiB."""
    return -(-nbytes // PAGE_BYTES) * PAGE_BYTES


def layout(tensors: Sequence[TensorSpec]) -> tuple[list[Placed], int]:
    """Where each tensor lies without compression, and how large the file is."""
    placed, end = [], PAGE_BYTES
    for tensor in tensors:
        placed.append(Placed(tensor, end, tensor.nbytes))
        end = placed[-1].end
    return placed, end


def tensor_views(memory: memoryview, tensors: Sequence[TensorSpec]) -> dict[str, Array]:
    """Writable arrays over a file's memory, one a tensor."""
    return {entry.tensor.name: _array(memory, entry) for entry in layout(tensors)[0]}


def seal(
    memory: memoryview, batch: BatchId, tensors: Sequence[TensorSpec], folded: bool = False
) -> int:
    """Write the header over a filled payload; returns the payload's checksum."""
    placed, total = layout(tensors)
    clear_gaps(memory, tensors)
    payload = memory[PAGE_BYTES:total]
    checksum = xxhash.xxh3_64_intdigest(payload)
    folding = fold(np.frombuffer(payload, "<u8")) if folded else None
    head = Head(batch, tuple(placed), len(payload), checksum, checksum, folding)
    memory[:PAGE_BYTES] = _packed(head)
    return checksum


def compress(memory: memoryview, codec: Codec) -> bytearray:
    """A sealed file with its tensors compressed, those that become smaller by it."""
    head = parse_head(memory)
    placed, parts, end = [], [], PAGE_BYTES
    for entry in head.tensors:
        raw = memory[entry.offset : entry.offset + entry.stored_bytes]
        small = codecs.compress(codec, raw)
        used, part = (codec, small) if len(small) < len(raw) else (Codec.OFF, raw)
        placed.append(Placed(entry.tensor, end, len(part), used))
        parts.append(part)
        end = placed[-1].end
    made = bytearray(end)
    for entry, part in zip(placed, parts, strict=True):
        made[entry.offset : entry.offset + entry.stored_bytes] = part
    stored = xxhash.xxh3_64_intdigest(memoryview(made)[PAGE_BYTES:])
    packed = Head(head.batch, tuple(placed), end - PAGE_BYTES, stored, head.checksum, None)
    made[:PAGE_BYTES] = _packed(packed)
    return made


def parse_head(memory: memoryview) -> Head:
    """Check a file's first 4 KiB, and read what they say."""
    if len(memory) < PAGE_BYTES:
        raise DamagedBatch(f"the file has {len(memory)} bytes, less than a header")
    if memory[:8] != MAGIC:
        raise DamagedBatch("the file is not a batch")
    (stored,) = _SUM.unpack_from(memory, _SUM_AT)
    if xxhash.xxh3_64_intdigest(memory[:_SUM_AT]) != stored:
        raise DamagedBatch("the header's checksum is wrong")
    _, version, count, epoch, samples, index, token, *rest = _HEAD.unpack_from(memory)
    if version != VERSION:
        raise DamagedBatch(f"the file has format version {version}; this build reads {VERSION}")
    run, pipeline, engine, device, size, stored, checksum, folding, flags = rest
    if count > MAX_TENSORS:
        raise DamagedBatch(f"the header names {count} tensors")
    batch = BatchId(
        run=uuid.UUID(bytes=run),
        epoch=epoch,
        index=index,
        token=token,
        samples=samples,
        pipeline=pipeline.hex(),
        engine=_text(engine),
        device=_text(device),
    )
    tensors = tuple(_parse_tensor(memory, place, PAGE_BYTES + size) for place in range(count))
    return Head(batch, tensors, size, stored, checksum, folding if flags & _FOLDED else None)


def unseal(memory: memoryview, checksum: int | None = None) -> tuple[Head, dict[str, Array]]:
    """Check a file's memory from end to end; gives its header and arrays over its tensors.

    The payload's checksum is taken here unless somebody has done so on the way. Tensors that were
    compressed lie in memory of their own.
    """
    head = parse_head(memory)
    payload = memory[PAGE_BYTES:]
    if len(payload) != head.payload_bytes:
        raise DamagedBatch(f"the payload has {len(payload)} bytes, not {head.payload_bytes}")
    found = xxhash.xxh3_64_intdigest(payload) if checksum is None else checksum
    if found != head.stored_checksum:
        raise DamagedBatch("the payload's checksum is wrong")
    return head, {entry.tensor.name: _array(memory, entry) for entry in head.tensors}


def clear_gaps(memory: memoryview, tensors: Sequence[TensorSpec]) -> None:
    """Put zeros between the tensors: then the payload is as it will stay."""
    for entry in layout(tensors)[0]:
        end = entry.offset + entry.stored_bytes
        memory[end : entry.end] = bytes(entry.end - end)


def _packed(head: Head) -> bytes:
    """The header's 4 KiB."""
    batch = head.batch
    raw = bytearray(PAGE_BYTES)
    _HEAD.pack_into(
        raw,
        0,
        MAGIC,
        VERSION,
        len(head.tensors),
        batch.epoch,
        batch.samples,
        batch.index,
        batch.token,
        batch.run.bytes,
        bytes.fromhex(batch.pipeline),
        batch.engine.encode()[:_ENGINE_BYTES],
        batch.device.encode()[:_DEVICE_BYTES],
        head.payload_bytes,
        head.stored_checksum,
        head.checksum,
        head.fold or 0,
        0 if head.fold is None else _FOLDED,
    )
    names = [entry.tensor.name.encode() for entry in head.tensors]
    if len(names) > MAX_TENSORS or any(len(name) > _NAME_BYTES for name in names):
        raise ValueError("a batch has at most 32 tensors with names of at most 16 bytes")
    for place, entry in enumerate(head.tensors):
        tensor = entry.tensor
        shape = tensor.shape + (0,) * (6 - len(tensor.shape))
        what = (names[place], tensor.dtype.encode(), len(tensor.shape), entry.codec.number, *shape)
        at = _TENSORS_AT + place * _TENSOR.size
        _TENSOR.pack_into(raw, at, *what, entry.offset, entry.stored_bytes)
    _SUM.pack_into(raw, _SUM_AT, xxhash.xxh3_64_intdigest(raw[:_SUM_AT]))
    return bytes(raw)


def _parse_tensor(memory: memoryview, place: int, total: int) -> Placed:
    at = _TENSORS_AT + place * _TENSOR.size
    name, dtype, dimensions, codec, *shape, offset, stored = _TENSOR.unpack_from(memory, at)
    tensor = TensorSpec(_text(name), _text(dtype), tuple(shape[:dimensions]))
    if tensor.dtype not in DTYPES or dimensions > 6:
        raise DamagedBatch(f"tensor {place} is described wrongly")
    entry = Placed(tensor, offset, stored, codecs.numbered(codec))
    if not _fits(entry):
        raise DamagedBatch(f"tensor {tensor.name} is described wrongly")
    if offset % PAGE_BYTES or offset < PAGE_BYTES or offset + stored > total:
        raise DamagedBatch(f"tensor {tensor.name} lies outside the file")
    return entry


def _fits(entry: Placed) -> bool:
    """Whether a tensor's bytes as stored can be those of its shape."""
    if entry.codec is Codec.OFF:
        return entry.stored_bytes == entry.tensor.nbytes
    return entry.stored_bytes < entry.tensor.nbytes <= entry.stored_bytes * codecs.MOST_RATIO


def _array(memory: memoryview, entry: Placed) -> Array:
    tensor, count = entry.tensor, math.prod(entry.tensor.shape)
    if entry.codec is Codec.OFF:
        flat = np.frombuffer(memory, dtype=tensor.dtype, count=count, offset=entry.offset)
    else:
        raw = memory[entry.offset : entry.offset + entry.stored_bytes]
        whole = codecs.decompress(entry.codec, raw, tensor.nbytes)
        flat = np.frombuffer(whole, dtype=tensor.dtype, count=count)
    return flat.reshape(tensor.shape)


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode(errors="replace")


def batch_tensors(
    samples: int,
    shape: tuple[int, int, int],
    dtype: str,
    extras: Sequence[TensorSpec] = (),
) -> list[TensorSpec]:
    """The tensors of an image batch: pixels, labels, which samples they are, and any extra.

    An extra's shape is that of one sample.
    """
    return [
        TensorSpec("images", np.dtype(dtype).newbyteorder("<").str, (samples, *shape)),
        TensorSpec("labels", "<i8", (samples,)),
        TensorSpec("samples", "<i8", (samples,)),
        *(TensorSpec(extra.name, extra.dtype, (samples, *extra.shape)) for extra in extras),
    ]
