"""Blocks of a device's memory: registered once, used again, replaced when batches grow."""

from typing import Any

import pytest
import torch

from ddlp.loader.readers.device_memory import DeviceMemory, DeviceTarget
from tests.loader.readers.test_gds import PlainFiles


class Registry(PlainFiles):
    """Takes note of memory by its address, and refuses it where told to."""

    def __init__(self, takes: bool = True) -> None:
        super().__init__()
        self._takes = takes

    def register(self, memory: Any) -> bool:
        if self._takes:
            self.registered.append(memory.data_ptr())
        return self._takes

    def unregister(self, memory: Any) -> None:
        self.registered.remove(memory.data_ptr())


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def memory(registry: Registry) -> DeviceMemory:
    return DeviceMemory(DeviceTarget("cpu"), registry)


@pytest.mark.parametrize("nbytes", [1, 4096, 5000, 1 << 20])
def test_blocks_begin_at_a_page(nbytes: int) -> None:
    block = DeviceTarget("cpu").allocate(nbytes)
    assert block.data_ptr() % 4096 == 0
    assert (block.nbytes, block.dtype, block.is_contiguous()) == (nbytes, torch.uint8, True)


def test_a_block_that_was_put_back_is_taken_again(memory: DeviceMemory, registry: Registry) -> None:
    first = memory.take(8192)
    memory.put(first)
    assert memory.take(8192) is first
    assert registry.registered == [first.data_ptr()]


def test_a_smaller_batch_gets_a_larger_block(memory: DeviceMemory) -> None:
    first = memory.take(8192)
    memory.put(first)
    assert memory.take(4096) is first


def test_blocks_in_use_are_left_alone(memory: DeviceMemory, registry: Registry) -> None:
    blocks = [memory.take(4096) for _ in range(3)]
    assert len({block.data_ptr() for block in blocks}) == 3
    assert len(registry.registered) == 3


def test_blocks_that_became_too_small_are_let_go(memory: DeviceMemory, registry: Registry) -> None:
    used, small = memory.take(4096), memory.take(4096)
    memory.put(small)
    large = memory.take(8192)
    assert sorted(registry.registered) == sorted([used.data_ptr(), large.data_ptr()])


def test_all_is_let_go_at_the_end(memory: DeviceMemory, registry: Registry) -> None:
    used, free = memory.take(4096), memory.take(4096)
    memory.put(free)
    memory.close()
    assert not registry.registered
    memory.put(used)
    memory.close()


def test_memory_that_cannot_be_registered_serves_all_the_same() -> None:
    memory = DeviceMemory(DeviceTarget("cpu"), Registry(takes=False))
    block = memory.take(4096)
    memory.put(block)
    assert memory.take(4096) is block
    memory.close()
