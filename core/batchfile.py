"""The file of one finished batch: a fixed header, then tensors, each aligned to 4 KiB.

    0     magic "DDLPBTCH" · u32 version · u32 tensors · u32 epoch · u32 samples ·
          u64 index · u64 token · 16 bytes run · 32 bytes pipeline hash · 16 bytes engine ·
          16 bytes device · u64 payload bytes · u64 xxh3 of the payload
    512   one entry of 96 bytes a tensor: 16 bytes name · 8 bytes dtype · u32 dimensions ·
          4 bytes zero · 6 × u64 shape · u64 offset · u64 bytes
    4088  u64 xxh3 of the header's first 4088 bytes
    4096  payload

All numbers are little-endian and nothing is ever unpickled. docs/batch-format.md is the full text.
"""

import math
import struct
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from ddlp.core.errors import DamagedBatch

MAGIC = b"DDLPBTCH"
VERSION = 1
PAGE_BYTES = 4096
_HEAD = struct.Struct("<8sIIIIQQ16s32s16s16sQQ")
_TENSORS_AT = 512
_TENSOR = struct.Struct("<16s8sI4x6QQQ")
_MAX_TENSORS = 32
_SUM = struct.Struct("<Q")
_SUM_AT = PAGE_BYTES - _SUM.size
_DTYPES = frozenset({"|u1", "<i8", "<i4", "<f4", "<f2"})

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


def layout(tensors: list[TensorSpec]) -> tuple[list[int], int]:
    """Where each tensor starts, and how large the file is."""
    offsets, end = [], PAGE_BYTES
    for tensor in tensors:
        offsets.append(end)
        end += -(-tensor.nbytes // PAGE_BYTES) * PAGE_BYTES
    return offsets, end


def tensor_views(memory: memoryview, tensors: list[TensorSpec]) -> dict[str, Array]:
    """Writable arrays over a file's memory, one a tensor."""
    offsets, _ = layout(tensors)
    return {t.name: _array(memory, t, offset) for t, offset in zip(tensors, offsets, strict=True)}


def seal(memory: memoryview, batch: BatchId, tensors: list[TensorSpec]) -> int:
    """Write the header over a filled payload; returns the payload's checksum."""
    offsets, total = layout(tensors)
    for tensor, offset in zip(tensors, offsets, strict=True):
        end = offset + tensor.nbytes
        memory[end : end + -end % PAGE_BYTES] = bytes(-end % PAGE_BYTES)
    checksum = xxhash.xxh3_64_intdigest(memory[PAGE_BYTES:total])
    header = bytearray(PAGE_BYTES)
    _HEAD.pack_into(
        header,
        0,
        MAGIC,
        VERSION,
        len(tensors),
        batch.epoch,
        batch.samples,
        batch.index,
        batch.token,
        batch.run.bytes,
        bytes.fromhex(batch.pipeline),
        _name(batch.engine),
        _name(batch.device),
        total - PAGE_BYTES,
        checksum,
    )
    if any(len(tensor.name.encode()) > 16 for tensor in tensors) or len(tensors) > _MAX_TENSORS:
        raise ValueError("a batch has at most 32 tensors with names of at most 16 bytes")
    for place, (tensor, offset) in enumerate(zip(tensors, offsets, strict=True)):
        shape = tensor.shape + (0,) * (6 - len(tensor.shape))
        entry = (_name(tensor.name), tensor.dtype.encode(), len(tensor.shape), *shape)
        at = _TENSORS_AT + place * _TENSOR.size
        _TENSOR.pack_into(header, at, *entry, offset, tensor.nbytes)
    _SUM.pack_into(header, _SUM_AT, xxhash.xxh3_64_intdigest(header[:_SUM_AT]))
    memory[:PAGE_BYTES] = header
    return checksum


def payload_checksum(memory: memoryview) -> int:
    """The checksum that a file's header gives for its payload."""
    checksum: int = _HEAD.unpack_from(memory)[-1]
    return checksum


def unseal(memory: memoryview) -> tuple[BatchId, dict[str, Array]]:
    """Check a file's memory from end to end; gives its identity and arrays over its tensors."""
    if len(memory) < PAGE_BYTES:
        raise DamagedBatch(f"the file has {len(memory)} bytes, less than a header")
    if memory[:8] != MAGIC:
        raise DamagedBatch("the file is not a batch")
    (stored,) = _SUM.unpack_from(memory, _SUM_AT)
    if xxhash.xxh3_64_intdigest(memory[:_SUM_AT]) != stored:
        raise DamagedBatch("the header's checksum is wrong")
    _, version, count, epoch, samples, index, token, *names, size, checksum = _HEAD.unpack_from(
        memory
    )
    if version != VERSION:
        raise DamagedBatch(f"the file has format version {version}; this build reads {VERSION}")
    if size != len(memory) - PAGE_BYTES or count > _MAX_TENSORS:
        raise DamagedBatch(f"the payload has {len(memory) - PAGE_BYTES} bytes, not {size}")
    if xxhash.xxh3_64_intdigest(memory[PAGE_BYTES:]) != checksum:
        raise DamagedBatch("the payload's checksum is wrong")
    run, pipeline, engine, device = names
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
    return batch, dict(_read_tensor(memory, place) for place in range(count))


def _read_tensor(memory: memoryview, place: int) -> tuple[str, Array]:
    at = _TENSORS_AT + place * _TENSOR.size
    name, dtype, dimensions, *shape, offset, nbytes = _TENSOR.unpack_from(memory, at)
    tensor = TensorSpec(_text(name), _text(dtype), tuple(shape[:dimensions]))
    if tensor.dtype not in _DTYPES or dimensions > 6 or tensor.nbytes != nbytes:
        raise DamagedBatch(f"tensor {place} is described wrongly")
    if offset % PAGE_BYTES or offset < PAGE_BYTES or offset + nbytes > len(memory):
        raise DamagedBatch(f"tensor {tensor.name} lies outside the file")
    return tensor.name, _array(memory, tensor, offset)


def _array(memory: memoryview, tensor: TensorSpec, offset: int) -> Array:
    count = math.prod(tensor.shape)
    flat = np.frombuffer(memory, dtype=tensor.dtype, count=count, offset=offset)
    return flat.reshape(tensor.shape)


def _name(text: str) -> bytes:
    return text.encode()[:16].ljust(16, b"\0")


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode(errors="replace")


def batch_tensors(samples: int, shape: tuple[int, int, int], dtype: str) -> list[TensorSpec]:
    """The tensors of an image batch: pixels, labels, and which samples they are."""
    return [
        TensorSpec("images", np.dtype(dtype).newbyteorder("<").str, (samples, *shape)),
        TensorSpec("labels", "<i8", (samples,)),
        TensorSpec("samples", "<i8", (samples,)),
    ]
