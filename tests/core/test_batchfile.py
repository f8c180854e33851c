"""The file of a batch: what was sealed comes back, and any change to it is found."""

import struct
import uuid
from dataclasses import replace

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.batchfile import (
    PAGE_BYTES,
    VERSION,
    Array,
    BatchId,
    TensorSpec,
    batch_tensors,
    layout,
    seal,
    tensor_views,
    unseal,
)
from ddlp.core.errors import DamagedBatch

BATCH = BatchId(
    run=uuid.UUID(int=0x1234),
    epoch=3,
    index=2**40,
    token=2**63,
    samples=3,
    pipeline="ab" * 32,
    engine="pillow-1",
    device="host",
)
TENSORS = batch_tensors(3, (5, 7, 3), "uint8")
SIZE = layout(TENSORS)[1]
VERSION_AT = 8
SUM_AT = PAGE_BYTES - 8


def sealed(batch: BatchId = BATCH, tensors: list[TensorSpec] = TENSORS) -> bytearray:
    """A file whose memory held rubbish before the batch was written into it."""
    file = bytearray(b"\xa5" * layout(tensors)[1])
    for name, view in tensor_views(memoryview(file), tensors).items():
        view[...] = expected(name, view)
    seal(memoryview(file), batch, tensors)
    return file


def expected(name: str, like: Array) -> Array:
    numbers = np.random.default_rng(len(name)).integers(0, 100, like.shape)
    return numbers.astype(like.dtype)


def reseal_header(file: bytearray) -> None:
    """Make the header's checksum right again, as a forger would."""
    struct.pack_into("<Q", file, SUM_AT, xxhash.xxh3_64_intdigest(file[:SUM_AT]))


def test_what_was_sealed_comes_back() -> None:
    batch, arrays = unseal(memoryview(sealed()))
    assert batch == BATCH
    assert list(arrays) == ["images", "labels", "samples"]
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected(name, array))
    assert arrays["images"].shape == (3, 5, 7, 3)
    assert arrays["images"].dtype == np.uint8
    assert arrays["labels"].dtype == np.int64


SHAPES = st.lists(st.integers(0, 9), max_size=4).map(tuple)
DTYPES = st.sampled_from(["|u1", "<i8", "<i4", "<f4", "<f2"])


@settings(max_examples=50, deadline=None)
@given(kinds=st.lists(st.tuples(DTYPES, SHAPES), min_size=1, max_size=8))
def test_tensors_of_any_shape_come_back(kinds: list[tuple[str, tuple[int, ...]]]) -> None:
    tensors = [TensorSpec(f"t{n}", dtype, shape) for n, (dtype, shape) in enumerate(kinds)]
    _, arrays = unseal(memoryview(sealed(tensors=tensors)))
    for tensor in tensors:
        array = arrays[tensor.name]
        assert (array.dtype.str, array.shape) == (tensor.dtype, tensor.shape)
        np.testing.assert_array_equal(array, expected(tensor.name, array))


@settings(max_examples=50, deadline=None)
@given(samples=st.integers(1, 70), height=st.integers(1, 40), width=st.integers(1, 40))
def test_every_tensor_starts_at_a_page_and_none_overlaps(
    samples: int, height: int, width: int
) -> None:
    tensors = batch_tensors(samples, (height, width, 3), "uint8")
    offsets, total = layout(tensors)
    assert offsets[0] == PAGE_BYTES == 4096
    assert all(offset % 4096 == 0 for offset in [*offsets, total])
    ends = [offset + tensor.nbytes for offset, tensor in zip(offsets, tensors, strict=True)]
    assert all(end <= start for end, start in zip(ends, [*offsets[1:], total], strict=True))


def test_tensors_lie_where_the_layout_says() -> None:
    file = sealed()
    offsets, _ = layout(TENSORS)
    _, arrays = unseal(memoryview(file))
    for offset, array in zip(offsets, arrays.values(), strict=True):
        assert file[offset : offset + array.nbytes] == array.tobytes()


def test_the_same_batch_is_the_same_file_whatever_was_in_its_memory() -> None:
    clean = bytearray(SIZE)
    for name, view in tensor_views(memoryview(clean), TENSORS).items():
        view[...] = expected(name, view)
    seal(memoryview(clean), BATCH, TENSORS)
    assert clean == sealed()


def test_the_checksum_depends_on_the_payload_and_not_on_who_made_it() -> None:
    first, second = bytearray(SIZE), bytearray(SIZE)
    other = replace(BATCH, token=1, device="elsewhere")
    assert seal(memoryview(first), BATCH, TENSORS) == seal(memoryview(second), other, TENSORS)
    first[PAGE_BYTES] ^= 1
    assert seal(memoryview(first), BATCH, TENSORS) != seal(memoryview(second), other, TENSORS)


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, SIZE - 1), bit=st.integers(0, 7))
def test_any_flipped_bit_is_found(at: int, bit: int) -> None:
    file = sealed()
    file[at] ^= 1 << bit
    with pytest.raises(DamagedBatch):
        unseal(memoryview(file))


@pytest.mark.parametrize(
    "at",
    [
        0,  # magic
        VERSION_AT,
        136,  # the first byte after the fields: unused
        511,
        512,  # the first tensor's entry
        800,  # the entries' unused end
        SUM_AT - 1,
        SUM_AT,
        PAGE_BYTES - 1,
        PAGE_BYTES,  # the first pixel
        PAGE_BYTES + 3 * 5 * 7 * 3,  # the padding after the last one
        2 * PAGE_BYTES - 1,
        SIZE - 1,
    ],
)
def test_every_bit_at_an_edge_is_guarded(at: int) -> None:
    for bit in range(8):
        file = sealed()
        file[at] ^= 1 << bit
        with pytest.raises(DamagedBatch):
            unseal(memoryview(file))


@settings(max_examples=60, deadline=None)
@given(length=st.integers(0, SIZE - 1))
def test_a_file_that_was_cut_short_is_found(length: int) -> None:
    with pytest.raises(DamagedBatch):
        unseal(memoryview(sealed()[:length]))


@pytest.mark.parametrize("more", [1, PAGE_BYTES - 1, PAGE_BYTES, 10 * PAGE_BYTES])
def test_a_file_that_grew_is_found(more: int) -> None:
    with pytest.raises(DamagedBatch, match="payload has"):
        unseal(memoryview(sealed() + bytes(more)))


def test_pages_that_changed_places_are_found() -> None:
    file = sealed()
    second, third = slice(PAGE_BYTES, 2 * PAGE_BYTES), slice(2 * PAGE_BYTES, 3 * PAGE_BYTES)
    file[second], file[third] = file[third], file[second]
    with pytest.raises(DamagedBatch, match="payload's checksum"):
        unseal(memoryview(file))


def test_a_header_before_the_payload_of_another_batch_is_found() -> None:
    file, other = sealed(), sealed(replace(BATCH, index=1))
    other[PAGE_BYTES] ^= 1
    seal(memoryview(other), BATCH, TENSORS)
    with pytest.raises(DamagedBatch, match="payload's checksum"):
        unseal(memoryview(file[:PAGE_BYTES] + other[PAGE_BYTES:]))


def test_a_file_of_another_version_is_refused_by_number() -> None:
    file = sealed()
    struct.pack_into("<I", file, VERSION_AT, VERSION + 1)
    reseal_header(file)
    with pytest.raises(DamagedBatch, match=f"version {VERSION + 1}; this build reads {VERSION}"):
        unseal(memoryview(file))


def test_something_else_is_not_a_batch() -> None:
    with pytest.raises(DamagedBatch, match="not a batch"):
        unseal(memoryview(bytes(SIZE)))
    with pytest.raises(DamagedBatch, match="less than a header"):
        unseal(memoryview(b""))


def description(*shape: int, nbytes: int) -> bytes:
    """A tensor's dimensions, shape, offset and bytes, as they stand in its entry."""
    six = (*shape, *[0] * (6 - len(shape)))
    return struct.pack("<I4x6QQQ", len(shape), *six, PAGE_BYTES, nbytes)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (512 + 16, b"|O\0\0\0\0\0\0"),  # a dtype of Python objects
        (512 + 24, struct.pack("<I", 7)),  # seven dimensions
        (512 + 32, struct.pack("<Q", 4)),  # a shape that is larger than its bytes
        (512 + 80, struct.pack("<Q", PAGE_BYTES + 1)),  # not at a page
        (512 + 80, struct.pack("<Q", SIZE)),  # past the end
        (512 + 80, struct.pack("<Q", 0)),  # inside the header
        (512 + 24, description(2**63, 2, 1, 1, nbytes=0)),  # more bytes than 64 bits can count
        (512 + 24, description(2**64 - 1, nbytes=315)),
        (12, struct.pack("<I", 33)),  # too many tensors
    ],
)
def test_a_wrong_description_is_refused_even_under_a_right_checksum(at: int, value: bytes) -> None:
    file = sealed()
    file[at : at + len(value)] = value
    reseal_header(file)
    with pytest.raises(DamagedBatch):
        unseal(memoryview(file))
