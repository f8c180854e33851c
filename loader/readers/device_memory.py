"""Memory of an accelerator that files are read to: registered once, used again and again."""

from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from ddlp.core.batchfile import PAGE_BYTES
from ddlp.loader.accelerator import side_of
from ddlp.loader.readers.kvikio_files import Files


class Target(Protocol):
    """Where bytes go: the thinnest edge, replaced in tests by the host's memory."""

    device: torch.device
    is_host: bool
    """Whether it is the host's memory, which all bytes pass through by nature."""

    def allocate(self, nbytes: int) -> torch.Tensor:
        """Bytes that begin at a page."""

    def exposed(self, memory: torch.Tensor) -> Any:
        """The same memory as KvikIO takes it."""

    def working(self) -> AbstractContextManager[None]:
        """What is started within is done at its end."""


class DeviceTarget:
    """A device."""

    is_host = False

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.working = side_of(self.device).working

    def allocate(self, nbytes: int) -> torch.Tensor:
        """From PyTorch's allocator, which begins its blocks anywhere in a page."""
        whole = torch.empty(nbytes + PAGE_BYTES, dtype=torch.uint8, device=self.device)
        ahead = -whole.data_ptr() % PAGE_BYTES
        return whole[ahead : ahead + nbytes]

    def exposed(self, memory: torch.Tensor) -> Any:
        """It has the interface that KvikIO asks for."""
        return memory


class DeviceMemory:
    """Blocks of a device's memory; each is registered when it is made."""

    def __init__(self, target: Target, files: Files) -> None:
        self._target = target
        self._files = files
        self._free: list[torch.Tensor] = []
        self._registered: list[torch.Tensor] = []

    def take(self, nbytes: int) -> torch.Tensor:
        """A block that holds so many bytes; it may be larger."""
        for place, block in enumerate(self._free):
            if block.nbytes >= nbytes:
                return self._free.pop(place)
        self._drop(self._free)  # batches have grown: what is too small is not asked for again
        self._free = []
        block = self._target.allocate(nbytes)
        if self._files.register(self._target.exposed(block)):
            self._registered.append(block)
        return block

    def put(self, block: torch.Tensor) -> None:
        """For the next batch; nothing must use it any more."""
        self._free.append(block)

    def close(self) -> None:
        """Let go of all of it."""
        self._drop(self._registered)
        self._free = []

    def _drop(self, blocks: list[torch.Tensor]) -> None:
        gone = {id(block) for block in blocks}
        for block in [known for known in self._registered if id(known) in gone]:
            self._files.unregister(self._target.exposed(block))
        self._registered = [known for known in self._registered if id(known) not in gone]
