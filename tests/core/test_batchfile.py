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
    aligned,
    batch_tensors,
    compress,
    layout,
    parse_head,
    seal,
    tensor_views,
    unseal,
)
from ddlp.core.codecs import Codec
from ddlp.core.errors import DamagedBatch
from ddlp.core.fold import fold

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
FIELDS_END = 220
SUM_AT = PAGE_BYTES - 8


def sealed(
    batch: BatchId = BATCH,
    tensors: list[TensorSpec] = TENSORS,
    folded: bool = False,
    codec: Codec = Codec.OFF,
) -> bytearray:
    """A file whose memory held rubbish before the batch was written into it."""
    file = bytearray(b"\xa5" * layout(tensors)[1])
    for name, view in tensor_views(memoryview(file), tensors).items():
        view[...] = expected(name, view)
    seal(memoryview(file), batch, tensors, folded)
    return file if codec is Codec.OFF else compress(memoryview(file), codec)


def expected(name: str, like: Array) -> Array:
    numbers = np.sort(np.random.default_rng(len(name)).integers(0, 100, like.size))
    return numbers.reshape(like.shape).astype(like.dtype)


def reseal_header(file: bytearray) -> None:
    """Make the header's checksum right again, as a forger would."""
    struct.pack_into("<Q", file, SUM_AT, xxhash.xxh3_64_intdigest(file[:SUM_AT]))


def test_what_was_sealed_comes_back() -> None:
    head, arrays = unseal(memoryview(sealed()))
    assert head.batch == BATCH
    assert head.nbytes == SIZE
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
    placed, total = layout(tensors)
    assert [entry.tensor for entry in placed] == tensors
    assert placed[0].offset == PAGE_BYTES == 4096
    offsets = [entry.offset for entry in placed]
    assert all(offset % 4096 == 0 for offset in [*offsets, total])
    ends = [entry.offset + entry.tensor.nbytes for entry in placed]
    assert all(end <= start for end, start in zip(ends, [*offsets[1:], total], strict=True))


def test_tensors_lie_where_the_layout_says() -> None:
    file = sealed()
    _, arrays = unseal(memoryview(file))
    for entry, array in zip(layout(TENSORS)[0], arrays.values(), strict=True):
        assert file[entry.offset : entry.offset + array.nbytes] == array.tobytes()


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
        FIELDS_END,  # the first byte after the fields: unused
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


def test_a_file_of_an_older_version_is_refused_by_number() -> None:
    file = sealed()
    struct.pack_into("<I", file, VERSION_AT, 1)
    reseal_header(file)
    with pytest.raises(DamagedBatch, match="format version 1; this build reads 2"):
        unseal(memoryview(file))


def test_something_else_is_not_a_batch() -> None:
    with pytest.raises(DamagedBatch, match="not a batch"):
        unseal(memoryview(bytes(SIZE)))
    with pytest.raises(DamagedBatch, match="less than a header"):
        unseal(memoryview(b""))


def description(*shape: int, nbytes: int, codec: int = 0) -> bytes:
    """A tensor's dimensions, shape, offset and bytes, as they stand in its entry."""
    six = (*shape, *[0] * (6 - len(shape)))
    return struct.pack("<II6QQQ", len(shape), codec, *six, PAGE_BYTES, nbytes)


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
        (512 + 28, struct.pack("<I", 3)),  # a codec that is not known
        (512 + 28, struct.pack("<I", 1)),  # a tensor that is said to be compressed
        (512 + 24, description(0, 5, nbytes=10, codec=1)),  # something that becomes nothing
        (512 + 24, description(5, nbytes=10, codec=2)),  # something that becomes smaller
        (512 + 24, description(2**40, nbytes=315, codec=1)),  # something that becomes far too large
        (512 + 24, description(2**40, nbytes=315, codec=2)),
        (512 + 24, description(300_000, nbytes=315, codec=1)),  # something that is not compressed
        (512 + 24, description(300_000, nbytes=315, codec=2)),
    ],
)
def test_a_wrong_description_is_refused_even_under_a_right_checksum(at: int, value: bytes) -> None:
    file = sealed()
    file[at : at + len(value)] = value
    reseal_header(file)
    with pytest.raises(DamagedBatch):
        unseal(memoryview(file))


def test_long_names_of_makers_are_cut_and_not_the_header() -> None:
    batch = replace(BATCH, engine="e" * 100, device="ä" * 100)
    head, _ = unseal(memoryview(sealed(batch)))
    assert head.batch.engine == "e" * 32
    assert head.batch.device == "ä" * 32
    assert head.batch.key == BATCH.key


@pytest.mark.parametrize("codec", [Codec.ZLIB, Codec.LZ4])
def test_what_was_compressed_comes_back(codec: Codec) -> None:
    plain, packed = sealed(), sealed(codec=codec)
    head, arrays = unseal(memoryview(packed))
    assert {entry.codec for entry in head.tensors} >= {codec}
    assert head.batch == BATCH
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected(name, array))
    assert head.checksum == parse_head(memoryview(plain)).checksum
    assert head.stored_checksum != head.checksum
    assert head.fold is None


@pytest.mark.parametrize("codec", [Codec.ZLIB, Codec.LZ4])
def test_what_does_not_shrink_is_left_as_it_is(codec: Codec) -> None:
    tensors = [TensorSpec("noise", "|u1", (5000,)), TensorSpec("none", "<i8", (0,))]
    file = bytearray(layout(tensors)[1])
    noise = np.random.default_rng(1).integers(0, 256, 5000, np.uint8)
    tensor_views(memoryview(file), tensors)["noise"][...] = noise
    seal(memoryview(file), BATCH, tensors)
    head, arrays = unseal(memoryview(compress(memoryview(file), codec)))
    assert [entry.codec for entry in head.tensors] == [Codec.OFF, Codec.OFF]
    np.testing.assert_array_equal(arrays["noise"], noise)
    assert arrays["none"].shape == (0,)


@settings(max_examples=50, deadline=None)
@given(
    kinds=st.lists(st.tuples(DTYPES, SHAPES), min_size=1, max_size=8),
    codec=st.sampled_from([Codec.ZLIB, Codec.LZ4]),
)
def test_compressed_tensors_of_any_shape_come_back_from_pages(
    kinds: list[tuple[str, tuple[int, ...]]], codec: Codec
) -> None:
    tensors = [TensorSpec(f"t{n}", dtype, shape) for n, (dtype, shape) in enumerate(kinds)]
    file = sealed(tensors=tensors, codec=codec)
    head, arrays = unseal(memoryview(file))
    assert len(file) == aligned(len(file)) == head.nbytes
    assert all(entry.offset % PAGE_BYTES == 0 for entry in head.tensors)
    for tensor in tensors:
        np.testing.assert_array_equal(
            arrays[tensor.name], expected(tensor.name, arrays[tensor.name])
        )


@pytest.mark.parametrize("codec", [Codec.ZLIB, Codec.LZ4])
def test_any_flipped_bit_of_a_compressed_file_is_found(codec: Codec) -> None:
    file = sealed(codec=codec)
    for at in range(0, len(file), 37):
        file[at] ^= 1 << at % 8
        with pytest.raises(DamagedBatch):
            unseal(memoryview(file))
        file[at] ^= 1 << at % 8
    unseal(memoryview(file))


def test_a_fold_is_of_the_payload_and_only_where_it_was_asked_for() -> None:
    file = sealed(folded=True)
    payload = np.frombuffer(file, "<u8", offset=PAGE_BYTES)
    assert parse_head(memoryview(file)).fold == fold(payload)
    assert parse_head(memoryview(sealed())).fold is None
    assert parse_head(memoryview(file)[:PAGE_BYTES]).nbytes == SIZE


def test_a_fold_of_nought_is_still_a_fold() -> None:
    tensors = [TensorSpec("zeros", "|u1", (100,))]
    file = bytearray(layout(tensors)[1])
    seal(memoryview(file), BATCH, tensors, folded=True)
    assert parse_head(memoryview(file)).fold == 0


@pytest.mark.parametrize(
    "tensors",
    [
        [TensorSpec(f"t{number}", "|u1", (1,)) for number in range(33)],
        [TensorSpec("a name that is long", "|u1", (1,))],
    ],
)
def test_what_does_not_fit_into_a_header_is_refused(tensors: list[TensorSpec]) -> None:
    with pytest.raises(ValueError, match="at most 32 tensors with names of at most 16 bytes"):
        seal(memoryview(bytearray(layout(tensors)[1])), BATCH, tensors)
