"""Batches that KvikIO reads: whole and checked, or refused with a cause.

All of it runs with plain reads first, then again with the real KvikIO on a stub of the driver that
takes memory once for the host's and once for a device's. It is the host's each time, and each time
bytes pass through the host: what is left needs a device.
"""

import ctypes
import importlib
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ddlp.core.batchfile import PAGE_BYTES, Array, BatchId, TensorSpec, parse_head, seal
from ddlp.core.codecs import Codec
from ddlp.core.errors import DamagedBatch, MissingBatch
from ddlp.core.filesystem import direct_refusal
from ddlp.core.pipeline import Pipeline
from ddlp.core.store import FolderStore, StoredBatch, path_of
from ddlp.loader.readers.base import Wanted
from ddlp.loader.readers.gds import GdsReader, NotByGds
from ddlp.loader.readers.gds_probe import Cause
from ddlp.loader.readers.kvikio_files import Files, KvikioFiles
from ddlp.loader.tensors import TensorOptions, ToTensors
from tests.loader.readers import stub_driver

SAMPLES = 5
BATCH = BatchId(
    run=uuid.UUID(int=7),
    epoch=1,
    index=3,
    token=9,
    samples=SAMPLES,
    pipeline="ab" * 32,
    engine="test",
    device="test",
)
TENSORS = [
    TensorSpec("images", "|u1", (SAMPLES, 61, 97, 3)),
    TensorSpec("labels", "<i8", (SAMPLES,)),
    TensorSpec("samples", "<i8", (SAMPLES,)),
    TensorSpec("boxes", "<f4", (SAMPLES, 300, 4)),
]


class PlainFiles:
    """Stands for KvikIO where it cannot run."""

    least_bytes = 16384

    def __init__(self) -> None:
        self.registered: list[int] = []

    def read(self, path: str, memory: Any, nbytes: int, offset: int) -> int:
        with Path(path).open("rb") as file:
            file.seek(offset)
            return file.readinto(_bytes(memory).data[:nbytes])

    def passed_host(self) -> bool:
        return True

    def register(self, memory: Any) -> bool:
        self.registered.append(_bytes(memory).ctypes.data)
        return True

    def unregister(self, memory: Any) -> None:
        self.registered.remove(_bytes(memory).ctypes.data)

    def close(self) -> None:
        pass


def _bytes(memory: Any) -> Array:
    """Memory as an array again, however it was shown."""
    if isinstance(memory, np.ndarray):
        return memory
    (address, _), (nbytes,) = (memory.__cuda_array_interface__[key] for key in ("data", "shape"))
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


class OnDevice:
    """Memory that shows itself as tensors on a device do."""

    def __init__(self, memory: torch.Tensor) -> None:
        self.__cuda_array_interface__ = {
            "data": (memory.data_ptr(), False),
            "shape": tuple(memory.shape),
            "typestr": "|u1",
            "version": 3,
        }


class HostTarget:
    """The host's memory in the place of a device's."""

    def __init__(self, is_host: bool = True) -> None:
        self.device = torch.device("cpu")
        self.is_host = is_host

    def allocate(self, nbytes: int) -> torch.Tensor:
        return torch.full((nbytes,), 0xEE, dtype=torch.uint8)

    def exposed(self, memory: torch.Tensor) -> Any:
        is_said_to_be_a_devices = os.environ.get("STUB_DEVICE_MEMORY")
        return OnDevice(memory) if is_said_to_be_a_devices else memory.numpy()

    @contextmanager
    def working(self) -> Iterator[None]:
        yield


def fill(arrays: dict[str, Array]) -> int:
    random = np.random.default_rng(11)
    arrays["images"][:] = random.integers(0, 256, arrays["images"].shape)
    arrays["labels"][:] = random.integers(0, 1000, SAMPLES)
    arrays["samples"][:] = random.integers(0, 2**40, SAMPLES)
    arrays["boxes"][:] = random.random(arrays["boxes"].shape)
    return SAMPLES


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    if (refusal := direct_refusal(tmp_path)) is not None:
        pytest.skip(f"the folder for tests is no drive: {refusal}")
    return FolderStore(tmp_path)


@pytest.fixture
def stored(store: FolderStore) -> StoredBatch:
    return store.write(BATCH, TENSORS, fill)


@pytest.fixture
def files() -> Iterator[Files]:
    made: Files = KvikioFiles() if stub_driver.on_stub() else PlainFiles()
    yield made
    made.close()


@pytest.fixture
def reader(files: Files) -> Iterator[GdsReader]:
    made = GdsReader("cpu", target=HostTarget(), files=files)
    yield made
    made.close()


def wanted(stored: StoredBatch) -> Wanted:
    return Wanted(BATCH, stored.checksum, stored.nbytes, stored.location)


def expected() -> dict[str, Array]:
    arrays: dict[str, Array] = {t.name: np.zeros(t.shape, t.dtype) for t in TENSORS}
    fill(arrays)
    return arrays


def damage(stored: StoredBatch, at: int, data: bytes) -> None:
    with path_of(stored.location).open("r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.parametrize("settings", [{}, {"STUB_DEVICE_MEMORY": "1"}], ids=["host", "device"])
def test_the_real_kvikio_passes_these_tests_too(tmp_path: Path, settings: dict[str, str]) -> None:
    if stub_driver.on_stub():
        pytest.skip("this is the run on the stub")
    said = stub_driver.run_again(__file__, tmp_path, **settings)
    assert re.search(r"\d\d passed", said), said


def test_it_is_kvikio_that_reads_on_the_stub(files: Files, stored: StoredBatch) -> None:
    if not stub_driver.on_stub():
        pytest.skip("there is no driver, not even a stub")
    assert isinstance(files, KvikioFiles)
    assert importlib.import_module("kvikio.defaults").get("num_threads") == 4
    reader = GdsReader("cpu", target=HostTarget(), files=files)
    assert not files.passed_host()
    reader.read(wanted(stored))
    with pytest.raises(DamagedBatch):  # it is asked once a read, and the answer is used up
        reader.read(replace(wanted(stored), nbytes=stored.nbytes + 1))
    assert not files.passed_host()
    read = files.read(stored.location.removeprefix("file://"), np.empty(99, np.uint8), 99, 0)
    assert (read, files.passed_host()) == (99, True)


def test_a_batch_is_read_whole(reader: GdsReader, stored: StoredBatch) -> None:
    loaded = reader.read(wanted(stored))
    assert loaded.nbytes == stored.nbytes
    assert set(loaded.tensors) == {"images", "labels", "samples", "boxes"}
    for name, array in expected().items():
        np.testing.assert_array_equal(np.asarray(loaded.tensors[name]), array)


def test_only_images_go_to_the_device(reader: GdsReader, stored: StoredBatch) -> None:
    loaded = reader.read(wanted(stored))
    kinds = {name: isinstance(what, torch.Tensor) for name, what in loaded.tensors.items()}
    assert kinds == {"images": True, "labels": False, "samples": False, "boxes": False}
    assert loaded.borrowed


def test_batches_follow_each_other_in_the_same_memory(
    reader: GdsReader, store: FolderStore
) -> None:
    places = set()
    for index in range(4):
        batch = replace(BATCH, index=index)
        stored = store.write(batch, TENSORS, fill)
        loaded = reader.read(replace(wanted(stored), batch=batch))
        images = loaded.tensors["images"]
        assert isinstance(images, torch.Tensor)
        np.testing.assert_array_equal(images.numpy(), expected()["images"])
        places.add(images.data_ptr())
        loaded.give_back()
    assert len(places) == 1


def test_memory_that_is_in_use_is_not_read_over(reader: GdsReader, stored: StoredBatch) -> None:
    first = reader.read(wanted(stored)).tensors["images"]
    second = reader.read(wanted(stored)).tensors["images"]
    assert isinstance(first, torch.Tensor)
    assert isinstance(second, torch.Tensor)
    assert first.data_ptr() != second.data_ptr()


def test_a_shorter_batch_fits_the_memory_of_a_longer_one(
    reader: GdsReader, store: FolderStore, stored: StoredBatch
) -> None:
    reader.read(wanted(stored)).give_back()
    short = replace(BATCH, index=4, samples=2)
    tensors = [replace(tensor, shape=(2, *tensor.shape[1:])) for tensor in TENSORS]

    def paint(arrays: dict[str, Array]) -> int:
        arrays["images"][:] = 3
        return 2

    written = store.write(short, tensors, paint)
    loaded = reader.read(replace(wanted(written), batch=short))
    images = loaded.tensors["images"]
    assert isinstance(images, torch.Tensor)
    assert images.shape == (2, 61, 97, 3)
    assert bool((images == 3).all())


def test_a_batch_is_given_back_to_its_store(reader: GdsReader, stored: StoredBatch) -> None:
    path = path_of(stored.location)
    reader.read(wanted(stored)).give_back()
    assert not path.exists()
    assert (path.parent / "free" / path.name).exists()


def test_tensors_made_of_a_batch_do_not_change_with_the_next(
    reader: GdsReader, store: FolderStore
) -> None:
    kept = []
    tensors = ToTensors(Pipeline.preset("imagenet-val"), TensorOptions(normalize=False))
    for value in (1, 2, 3):
        batch = replace(BATCH, index=value)

        def paint(arrays: dict[str, Array], value: int = value) -> int:
            arrays["images"][:] = value
            return SAMPLES

        stored = store.write(batch, TENSORS, paint)
        kept.append(tensors(value, reader.read(replace(wanted(stored), batch=batch))))
        assert not path_of(stored.location).exists(), "it is given back at once"
    assert [int(batch.images[0, 0, 0, 0]) for batch in kept] == [1, 2, 3]
    assert kept[0].extras["boxes"].shape == (SAMPLES, 300, 4)


def bits(nbytes: int) -> list[int]:
    """Bits of every part of the file: header, images, small tensors and what lies between."""
    random = np.random.default_rng(5)
    places = {8 * at for at in (0, 8, 200, 512, 4088, 4096, nbytes - 1)}
    images_end = PAGE_BYTES + TENSORS[0].nbytes
    places |= {8 * (images_end - 1) + 7, 8 * images_end, 8 * (images_end + 2000)}
    return sorted(places | set(random.integers(0, 8 * nbytes, 25).tolist()))


def test_any_flipped_bit_is_noticed(reader: GdsReader, stored: StoredBatch) -> None:
    path = path_of(stored.location)
    sound = path.read_bytes()
    for bit in bits(stored.nbytes):
        damage(stored, bit // 8, bytes([sound[bit // 8] ^ 1 << bit % 8]))
        with pytest.raises(DamagedBatch):
            reader.read(wanted(stored))
        damage(stored, bit // 8, sound[bit // 8 : bit // 8 + 1])
    reader.read(wanted(stored))


def test_swapped_pages_are_noticed(reader: GdsReader, stored: StoredBatch) -> None:
    sound = path_of(stored.location).read_bytes()
    pages = stored.nbytes // PAGE_BYTES
    for one, other in ((1, 2), (3, 9), (1, pages - 1), (pages - 3, pages - 1)):
        for to, source in ((one, other), (other, one)):
            page = sound[source * PAGE_BYTES : (source + 1) * PAGE_BYTES]
            damage(stored, to * PAGE_BYTES, page)
        with pytest.raises(DamagedBatch, match="fold is wrong"):
            reader.read(wanted(stored))
        damage(stored, 0, sound)


@pytest.mark.parametrize("kept", [0, 100, PAGE_BYTES, PAGE_BYTES + 5, 50_000])
def test_a_truncated_file_is_noticed(reader: GdsReader, stored: StoredBatch, kept: int) -> None:
    os.truncate(path_of(stored.location), kept)
    with pytest.raises(DamagedBatch, match=f"has {kept} bytes"):
        reader.read(wanted(stored))


def test_a_file_that_loses_its_end_while_it_is_read_is_noticed(
    files: Files, stored: StoredBatch
) -> None:
    class Cutting(HostTarget):
        def exposed(self, memory: torch.Tensor) -> Any:
            os.truncate(path_of(stored.location), 2 * PAGE_BYTES)
            return super().exposed(memory)

    with pytest.raises(DamagedBatch, match="bytes"):
        GdsReader("cpu", target=Cutting(), files=files).read(wanted(stored))


def test_a_file_that_is_gone_is_missing(reader: GdsReader, stored: StoredBatch) -> None:
    path_of(stored.location).unlink()
    with pytest.raises(MissingBatch):
        reader.read(wanted(stored))


def test_another_batch_under_the_same_name_is_not_taken(
    reader: GdsReader, stored: StoredBatch
) -> None:
    with pytest.raises(DamagedBatch, match="another batch"):
        reader.read(replace(wanted(stored), batch=replace(BATCH, index=4)))


def test_another_result_of_the_same_batch_is_not_taken(
    reader: GdsReader, stored: StoredBatch
) -> None:
    with pytest.raises(MissingBatch, match="overwritten"):
        reader.read(replace(wanted(stored), checksum=stored.checksum ^ 1))


def test_memory_of_a_damaged_batch_is_used_for_the_next(
    reader: GdsReader, stored: StoredBatch
) -> None:
    first = reader.read(wanted(stored))
    images = first.tensors["images"]
    assert isinstance(images, torch.Tensor)
    first.give_back()
    os.rename(
        path_of(stored.location).parent / "free" / path_of(stored.location).name,
        path_of(stored.location),
    )
    sound = path_of(stored.location).read_bytes()
    damage(stored, 9000, bytes([sound[9000] ^ 1]))
    with pytest.raises(DamagedBatch):
        reader.read(wanted(stored))
    damage(stored, 0, sound)
    again = reader.read(wanted(stored)).tensors["images"]
    assert isinstance(again, torch.Tensor)
    assert again.data_ptr() == images.data_ptr()


def test_compressed_images_are_refused(reader: GdsReader, tmp_path: Path) -> None:
    def plain(arrays: dict[str, Array]) -> int:
        arrays["images"][:] = 1
        return SAMPLES

    stored = FolderStore(tmp_path, codec=Codec.ZLIB).write(BATCH, TENSORS, plain)
    with pytest.raises(NotByGds, match="DDLP_STORE_COMPRESSION") as raised:
        reader.read(wanted(stored))
    assert raised.value.refusal.cause is Cause.COMPRESSED


def test_a_batch_without_a_fold_is_refused(reader: GdsReader, stored: StoredBatch) -> None:
    path = path_of(stored.location)
    memory = bytearray(path.read_bytes())
    seal(memoryview(memory), BATCH, TENSORS, folded=False)
    path.write_bytes(memory)
    assert parse_head(memoryview(memory)).fold is None
    with pytest.raises(NotByGds) as raised:
        reader.read(wanted(stored))
    assert raised.value.refusal.cause is Cause.NO_FOLD


def test_images_below_kvikios_threshold_are_refused(reader: GdsReader, store: FolderStore) -> None:
    small = [replace(TENSORS[0], shape=(SAMPLES, 4, 4, 3)), *TENSORS[1:]]
    stored = store.write(BATCH, small, fill)
    with pytest.raises(NotByGds) as raised:
        reader.read(wanted(stored))
    assert raised.value.refusal.cause is Cause.TOO_SMALL


def test_a_read_that_kvikio_cannot_do_is_left_to_another_path(
    stored: StoredBatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(PlainFiles):
        def read(self, path: str, memory: Any, nbytes: int, offset: int) -> int:
            raise RuntimeError("cuFile error: it is out of order")

    reader = GdsReader("cpu", target=HostTarget(), files=Failing())
    with pytest.raises(NotByGds, match="fails at reading some files") as raised:
        reader.read(wanted(stored))
    assert "out of order" in caplog.text, "the reason is the same for all files, to be counted"
    assert raised.value.refusal.cause is Cause.READ_FAILED


def test_bytes_that_passed_through_the_host_are_not_called_direct(
    files: Files, stored: StoredBatch
) -> None:
    """Here all bytes do: the reader is told that its target is a device."""
    reader = GdsReader("cpu", target=HostTarget(is_host=False), files=files)
    for _ in range(2):
        with pytest.raises(NotByGds, match="through the host") as raised:
            reader.read(wanted(stored))
        assert raised.value.refusal.cause is Cause.COMPAT_MODE


def test_what_passed_through_the_host_once_is_not_read_so_again(stored: StoredBatch) -> None:
    class Counting(PlainFiles):
        reads = 0

        def read(self, path: str, memory: Any, nbytes: int, offset: int) -> int:
            self.reads += 1
            return super().read(path, memory, nbytes, offset)

    files = Counting()
    reader = GdsReader("cpu", target=HostTarget(is_host=False), files=files)
    for _ in range(3):
        with pytest.raises(NotByGds):
            reader.read(wanted(stored))
    assert files.reads == 1


def test_memory_is_registered_once_and_let_go_at_the_end(stored: StoredBatch) -> None:
    files = PlainFiles()
    reader = GdsReader("cpu", target=HostTarget(), files=files)
    loaded = [reader.read(wanted(stored)) for _ in range(2)]
    assert len(set(files.registered)) == len(files.registered) == 2
    for batch in loaded:
        batch.give_back()
    reader.close()
    assert not files.registered
