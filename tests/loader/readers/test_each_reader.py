"""Each reader against each store it can read: what was written comes back, or an error does."""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import xxhash

from ddlp.core.batchfile import PAGE_BYTES, VERSION, Array, batch_tensors, parse_head
from ddlp.core.codecs import Codec
from ddlp.core.errors import DamagedBatch, MissingBatch
from ddlp.core.store import StoredBatch
from ddlp.core.types import ReadPath
from ddlp.loader.readers.base import Loaded, Reader, Wanted
from tests.core.store.making import (
    OTHER_RUN,
    RUN,
    Arrays,
    batch_id,
    folder_in_memory,
    pictures,
    write,
)
from tests.loader.readers.places import MAKERS, WAYS, BucketPlace, Place, folder_place, name_of

FLIPS = 120
BATCH = batch_id(index=3, token=5)
NAME = name_of(BATCH)


@dataclass
class Way:
    """A reader, and a place with one batch."""

    path: ReadPath
    place: Place
    reader: Reader
    codec: Codec
    stored: StoredBatch

    @property
    def wanted(self) -> Wanted:
        return self.place.wanted(BATCH, self.stored)

    def read(self) -> Loaded:
        return self.reader.read(self.wanted)


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(way))
def place_and_path(
    request: pytest.FixtureRequest, codec: Codec, tmp_path: Path
) -> Iterator[tuple[ReadPath, Place]]:
    path, where = request.param
    if where == "bucket":
        bucket = request.getfixturevalue("bucket")
        yield path, BucketPlace(bucket, request.getfixturevalue("s3_client"), codec)
    elif where == "drive":
        place = folder_place(path, tmp_path, codec)
        yield path, place
        place.close()
    else:
        with folder_in_memory() as folder:
            place = folder_place(path, folder, codec)
            yield path, place
            place.close()


@pytest.fixture(params=list(Codec))
def codec(request: pytest.FixtureRequest) -> Codec:
    if request.param is Codec.LZ4:
        pytest.importorskip("lz4", reason="lz4 is not installed")
    codec: Codec = request.param
    return codec


@pytest.fixture
def way(place_and_path: tuple[ReadPath, Place], codec: Codec) -> Iterator[Way]:
    path, place = place_and_path
    reader = MAKERS[path]()
    yield Way(path, place, reader, codec, write(place.store, BATCH, fill=pictures(1)))
    reader.close()


def made(fill_seed: int, samples: int = 4, side: int = 32) -> Arrays:
    tensors = batch_tensors(samples, (side, side, 3), "uint8")
    arrays: Arrays = {t.name: np.empty(t.shape, t.dtype) for t in tensors}
    pictures(fill_seed)(arrays)
    return arrays


def test_what_was_written_comes_back_and_goes(way: Way) -> None:
    loaded = way.read()
    assert way.reader.path is way.path
    assert loaded.nbytes == way.stored.nbytes == len(way.place.get(NAME))
    assert set(loaded.tensors) == {"images", "labels", "samples"}
    for name, right in made(1).items():
        np.testing.assert_array_equal(np.asarray(loaded.tensors[name]), right)
    assert way.place.has(NAME)
    loaded.give_back()
    assert not way.place.has(NAME)
    loaded.give_back()  # twice is harmless


def test_it_is_compressed_where_it_was_asked_for(way: Way) -> None:
    used = {entry.codec for entry in parse_head(memoryview(way.place.get(NAME))).tensors}
    assert used >= ({way.codec} if way.codec is not Codec.OFF else {Codec.OFF})
    assert (way.codec is Codec.OFF) == (used == {Codec.OFF})


def test_arrays_stay_as_they_are_while_others_are_read(way: Way) -> None:
    batches = [batch_id(index=index, token=index + 10) for index in range(6)]
    wanted = [
        way.place.wanted(batch, write(way.place.store, batch, fill=pictures(batch.index)))
        for batch in batches
    ]
    held = [way.reader.read(one) for one in wanted]
    for batch, loaded in zip(batches, held, strict=True):
        images = np.asarray(loaded.tensors["images"])
        np.testing.assert_array_equal(images, made(batch.index)["images"])


def test_files_that_are_used_again_are_read_right(way: Way) -> None:
    for token in range(20, 28):
        batch = batch_id(index=token, token=token, samples=1 + token % 4)
        stored = write(way.place.store, batch, fill=pictures(token), side=8 + 5 * (token % 3))
        loaded = way.reader.read(way.place.wanted(batch, stored))
        right = made(token, batch.samples, 8 + 5 * (token % 3))
        np.testing.assert_array_equal(np.asarray(loaded.tensors["images"]), right["images"])
        del loaded.tensors["images"]  # type: ignore[attr-defined]
        loaded.give_back()


@pytest.mark.parametrize("codec", [Codec.OFF], indirect=True)
def test_a_batch_of_many_slices_comes_back(way: Way) -> None:
    batch = batch_id(index=9, token=9, samples=40)
    stored = write(way.place.store, batch, fill=noise, side=450)
    assert stored.nbytes > 16 << 20
    loaded = way.reader.read(way.place.wanted(batch, stored))
    right = np.empty((40, 450, 450, 3), np.uint8)
    noise({"images": right})
    np.testing.assert_array_equal(np.asarray(loaded.tensors["images"]), right)


def noise(arrays: dict[str, Array]) -> int:
    """What cannot be compressed."""
    for array in arrays.values():
        array[...] = np.random.default_rng(5).integers(0, 250, array.shape, np.uint8)
    return len(arrays["images"])


def check_found(way: Way, wanted: Wanted | None = None) -> DamagedBatch:
    wanted = wanted or way.wanted
    with pytest.raises(DamagedBatch) as caught:
        way.reader.read(wanted)
    where = wanted.location.removeprefix("file://")
    assert where in str(caught.value)
    return caught.value


def test_any_flipped_bit_is_found(way: Way) -> None:
    whole = way.place.get(NAME)
    chosen = random.Random(f"{way.path}{way.codec}")
    spots = [chosen.randrange(PAGE_BYTES) for _ in range(FLIPS // 2)]
    spots += [chosen.randrange(PAGE_BYTES, len(whole)) for _ in range(FLIPS // 2)]
    for spot in spots:
        hurt = bytearray(whole)
        hurt[spot] ^= 1 << chosen.randrange(8)
        way.place.put(NAME, bytes(hurt))
        check_found(way)
    way.place.put(NAME, whole)
    way.read()


def test_a_batch_that_was_cut_short_is_found(way: Way) -> None:
    whole = way.place.get(NAME)
    for length in (0, 1, 8, 4095, 4096, 4097, 8192, len(whole) - 4096, len(whole) - 1):
        way.place.put(NAME, whole[:length])
        check_found(way)


def test_a_batch_that_grew_is_found(way: Way) -> None:
    whole = way.place.get(NAME)
    for more in (1, 4095, 4096, 3 << 20):
        way.place.put(NAME, whole + bytes(more))
        check_found(way)


def test_a_batch_of_another_size_than_was_committed_is_found(way: Way) -> None:
    for change in (-4096, -1, 1, 4096):
        check_found(way, replace(way.wanted, nbytes=way.stored.nbytes + change))


def test_batches_that_changed_places_are_found(way: Way) -> None:
    other = batch_id(index=4, token=6)
    write(way.place.store, other, fill=pictures(1))
    way.place.put(NAME, way.place.get(name_of(other)))
    assert "holds another batch" in str(check_found(way))


def test_another_batch_under_its_name_is_found(way: Way) -> None:
    others = [
        batch_id(index=99, token=5),
        batch_id(index=3, token=99),
        batch_id(index=3, token=5, run=OTHER_RUN),
        replace(BATCH, epoch=1),
        replace(BATCH, pipeline="00" * 32),
        replace(BATCH, samples=3),
    ]
    for other in others:
        error = check_found(way, replace(way.wanted, batch=other))
        assert "holds another batch" in str(error)


def test_what_another_attempt_made_otherwise_is_found(way: Way) -> None:
    write(way.place.store, BATCH, fill=pictures(2))
    nbytes = len(way.place.get(NAME))
    error = check_found(way, replace(way.wanted, nbytes=nbytes))
    assert isinstance(error, MissingBatch)
    assert "overwritten by another attempt" in str(error)


def test_a_batch_of_another_format_is_found_even_under_a_right_checksum(way: Way) -> None:
    file = bytearray(way.place.get(NAME))
    struct.pack_into("<I", file, 8, VERSION + 1)
    struct.pack_into("<Q", file, 4088, xxhash.xxh3_64_intdigest(file[:4088]))
    way.place.put(NAME, bytes(file))
    assert f"version {VERSION + 1}" in str(check_found(way))


def test_a_batch_that_is_gone_is_missing(way: Way) -> None:
    way.place.remove(NAME)
    assert isinstance(check_found(way), MissingBatch)
    assert RUN.hex not in NAME  # names are as people write them
    way.place.store.remove_run(RUN)
    assert isinstance(check_found(way), MissingBatch)


def test_a_reader_goes_on_after_what_it_could_not_read(way: Way) -> None:
    whole = way.place.get(NAME)
    for hurt in (whole[:-1], bytes(len(whole)), whole + b"x", b""):
        way.place.put(NAME, hurt)
        check_found(way)
    way.place.remove(NAME)
    check_found(way)
    way.place.put(NAME, whole)
    np.testing.assert_array_equal(np.asarray(way.read().tensors["images"]), made(1)["images"])
