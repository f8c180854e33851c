"""Brings batches onto an accelerator: from pinned memory, beside the trainer's work, in one kernel.

What is used of a device's own library is a `Side`; all else is the same on every device.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import numpy as np
import torch

from ddlp.core.batchfile import Array
from ddlp.core.image import Levels
from ddlp.loader.buffers import Buffers
from ddlp.loader.host_images import Form


class Side(Protocol):
    """Where a device works on the next batches while the trainer uses it."""

    def working(self) -> AbstractContextManager[None]:
        """What is started within is done at its end; the trainer's work is not waited for."""

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Whether the device can fetch a tensor of the host by itself."""

    def used_by_trainer(self, tensor: torch.Tensor) -> None:
        """Have a tensor's memory kept until what the calling thread starts now is done with it."""


class CudaSide:
    """A stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @contextmanager
    def working(self) -> Iterator[None]:
        """On the stream; what it was given is finished at the end, whatever happened."""
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:
            self._stream.synchronize()

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """As the driver knows it."""
        return tensor.is_pinned()

    def used_by_trainer(self, tensor: torch.Tensor) -> None:
        """The allocator then waits for the calling thread's stream before the memory is reused."""
        tensor.record_stream(torch.cuda.current_stream(self._device))


class PlainSide:
    """For devices whose work is in one order anyway."""

    @contextmanager
    def working(self) -> Iterator[None]:
        """Nothing runs beside anything."""
        yield

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Nothing needs to be."""
        return True

    def used_by_trainer(self, tensor: torch.Tensor) -> None:
        """It is kept anyway."""


def side_of(device: torch.device) -> Side:
    """The side of a device."""
    return CudaSide(device) if device.type == "cuda" else PlainSide()


class DeviceImages:
    """Turns pixels (samples, height, width, 3) into images (samples, 3, height, width) there.

    A device's own multiplication and addition may differ from the host's in the last bit.
    """

    def __init__(self, device: torch.device, levels: Levels | None, form: Form) -> None:
        self._dtype = form.dtype
        self._layout = torch.channels_last if form.channels_last else torch.contiguous_format
        self._scale: list[torch.Tensor] | None = None
        if levels is not None:
            scale = (levels.multiply, levels.add)
            self._scale = [torch.tensor(v, device=device).view(1, 3, 1, 1) for v in scale]

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """Type, values and layout in one kernel; pixels that need nothing are only looked at."""
        images = pixels.permute(0, 3, 1, 2)
        if self._scale is None or pixels.dtype != torch.uint8:
            dtype = torch.uint8 if pixels.dtype == torch.uint8 else self._dtype
            return images.to(dtype=dtype, memory_format=self._layout)
        multiply, add = self._scale
        out = torch.empty(
            images.shape, dtype=self._dtype, device=images.device, memory_format=self._layout
        )
        return torch.addcmul(add, images, multiply, out=out)


class Accelerator:
    """Uploads batches to a device, beside the trainer's work."""

    def __init__(
        self,
        device: torch.device,
        images: DeviceImages,
        buffers: Buffers,
        side: Side | None = None,
    ) -> None:
        self._device = device
        self._images = images
        self._buffers = buffers
        self._side = side or side_of(device)

    def __call__(
        self, tensors: Mapping[str, Array | torch.Tensor], made: bool = False
    ) -> dict[str, torch.Tensor]:
        """Tensors by name, finished, in memory of the device's allocator.

        `images` are pixels, and are made there unless that was done in the host's memory.
        """
        given = {name: self._pinned(what) for name, what in tensors.items()}
        with self._side.working():
            there = {n: t.to(self._device, non_blocking=True) for n, t in given.items()}
            if not made:
                there["images"] = self._images(there["images"])
            there = {name: apart(tensor, given[name]) for name, tensor in there.items()}
        del given  # not before the device has fetched it
        for tensor in there.values():
            self.used_by_trainer(tensor)
        return there

    def used_by_trainer(self, tensor: torch.Tensor) -> None:
        """Have a tensor's memory kept until what the calling thread starts now is done with it."""
        self._side.used_by_trainer(tensor)

    def _pinned(self, what: Array | torch.Tensor) -> torch.Tensor:
        if isinstance(what, torch.Tensor):
            return what
        if what.flags.writeable:
            tensor = torch.from_numpy(what)
            if self._side.is_pinned(tensor):
                return tensor
        staged = self._buffers.take(what.shape, what.dtype)
        np.copyto(staged, what)
        return torch.from_numpy(staged)


def apart(tensor: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """A tensor outside the memory that was given: a reader will put other batches there."""
    same = tensor.device == given.device and tensor.data_ptr() == given.data_ptr()
    return tensor.clone() if same else tensor
