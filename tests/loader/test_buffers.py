"""Memory for batches: used again, aligned, and pinned for as long as it is there."""

import ctypes
import gc
import mmap
import threading

import numpy as np
import pytest
import torch

from ddlp.core.batchfile import Array
from ddlp.core.errors import Unavailable
from ddlp.loader.buffers import Buffers

BYTES = np.dtype(np.uint8)
LARGE = (1 << 20, 2)


class Pins:
    """Stands for the driver: remembers what is pinned."""

    def __init__(self) -> None:
        self.pinned: dict[int, int] = {}

    def pin(self, address: int, nbytes: int) -> None:
        assert address not in self.pinned
        self.pinned[address] = nbytes

    def unpin(self, address: int) -> None:
        del self.pinned[address]


class NoPins(Pins):
    def pin(self, address: int, nbytes: int) -> None:
        raise Unavailable("it cannot be pinned")


def test_memory_is_used_again_when_nobody_holds_a_tensor_over_it() -> None:
    buffers = Buffers()

    def take() -> torch.Tensor:
        return torch.from_numpy(buffers.take(LARGE, BYTES))

    first, second = take(), take()
    place = first.data_ptr()
    assert second.data_ptr() != place
    part = first[3:10].permute(1, 0)
    del first
    third = take()
    assert third.data_ptr() != place, "a view still shows it"
    del part
    assert take().data_ptr() == place


def test_large_memory_begins_at_a_page() -> None:
    array = Buffers().take((3, 1 << 20), BYTES)
    assert array.ctypes.data % mmap.PAGESIZE == 0


@pytest.mark.parametrize("dtype", ["u1", "f4", "i2", "i8"])
def test_shape_and_type_are_those_asked_for(dtype: str) -> None:
    buffers = Buffers()
    for shape in ((5,), (2, 3, 4), (1 << 10, 1 << 11), (0, 7)):
        array = buffers.take(shape, np.dtype(dtype))
        assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
        array[...] = 1


def test_memory_is_pinned_once_and_as_long_as_it_is_there() -> None:
    pins = Pins()
    buffers = Buffers(pins)
    array = buffers.take(LARGE, BYTES)
    assert pins.pinned == {array.ctypes.data: array.nbytes}
    del array
    array = buffers.take(LARGE, BYTES)
    assert len(pins.pinned) == 1, "the same memory again"
    view = array[5:].T
    del array, buffers
    gc.collect()
    assert len(pins.pinned) == 1, "a view still shows it"
    del view
    gc.collect()
    assert not pins.pinned


def test_memory_is_unpinned_before_it_goes() -> None:
    """Its address could belong to somebody else by then."""
    seen: list[bytes] = []

    class Reading(Pins):
        def unpin(self, address: int) -> None:
            window = (ctypes.c_char * 3).from_address(address)
            seen.append(bytes(window))

    array = Buffers(Reading()).take(LARGE, BYTES)
    array[0, :], array[1, 0] = (1, 2), 3
    del array
    gc.collect()
    assert seen == [b"\1\2\3"]


def test_memory_goes_in_whichever_thread_drops_it_last() -> None:
    pins = Pins()
    held: list[Array] = [Buffers(pins).take(LARGE, BYTES)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert not pins.pinned


def test_small_memory_is_not_pinned() -> None:
    pins = Pins()
    Buffers(pins).take((64,), np.dtype(np.int64))
    assert not pins.pinned


def test_memory_that_cannot_be_pinned_is_said_and_not_kept() -> None:
    buffers = Buffers(NoPins())
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot be pinned"):
            buffers.take(LARGE, BYTES)


@pytest.mark.parametrize(("device", "pins"), [("cpu", False), ("meta", False), ("cuda:0", True)])
def test_only_memory_for_cuda_is_pinned(
    device: str, pins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int, int]] = []

    class Runtime:
        class cudaError:  # noqa: N801
            success = 0

        def cudaHostRegister(self, address: int, nbytes: int, flags: int) -> int:  # noqa: N802
            asked.append((address, nbytes, flags))
            return 0

        def cudaHostUnregister(self, address: int) -> None:  # noqa: N802
            asked.remove((address, LARGE[0] * LARGE[1], 1))

    monkeypatch.setattr(torch.cuda, "cudart", Runtime)
    array = Buffers.for_device(device).take(LARGE, BYTES)
    assert asked == ([(array.ctypes.data, array.nbytes, 1)] if pins else [])
    del array
    gc.collect()
    assert not asked


def test_a_driver_that_refuses_to_pin_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Runtime:
        class cudaError:  # noqa: N801
            success = 0

        def cudaHostRegister(self, address: int, nbytes: int, flags: int) -> int:  # noqa: N802
            return 2

    monkeypatch.setattr(torch.cuda, "cudart", Runtime)
    with pytest.raises(Unavailable, match=r"2097152 bytes .* \(2\); free some"):
        Buffers.for_device("cuda").take(LARGE, BYTES)


@pytest.mark.parametrize("shape", [(1 << 20,), (4, 512, 512)])
def test_memory_is_not_used_again_while_a_part_of_it_is_in_use(shape: tuple[int, ...]) -> None:
    buffers = Buffers()
    whole = buffers.take(shape, BYTES)
    place, part = whole.ctypes.data, whole[1:]
    del whole
    assert buffers.take(shape, BYTES).ctypes.data != place
    del part
    assert buffers.take(shape, BYTES).ctypes.data == place
