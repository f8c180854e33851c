"""Turns a batch as it travelled (bytes, channels last in memory) into tensors for training.

Normalising comes last, so that batches travel as bytes: on the accelerator, in one kernel with the
change of type and of layout; or in the host's memory, where that is asked for or all there is.
"""

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from ddlp.core.batchfile import Array
from ddlp.core.errors import DamagedBatch, InvalidInput
from ddlp.core.image import Levels
from ddlp.core.maps import CUT_SHORT, MappedFile
from ddlp.core.pipeline import Pipeline
from ddlp.core.pipeline.renderer import levels_of
from ddlp.loader.accelerator import Accelerator, DeviceImages, apart
from ddlp.loader.buffers import Buffers
from ddlp.loader.host_images import Form, HostImages
from ddlp.loader.readers.base import Loaded

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class TensorOptions:
    """How training code wants its tensors."""

    device: str = "cpu"
    normalize: bool | Literal["host"] = True
    """With the pipeline's values, on the device; `host`: before they are transferred."""
    dtype: torch.dtype = torch.float32
    """Of normalised images; others stay bytes."""
    channels_last: bool = True
    """How images lie in memory; their shape is (samples, 3, height, width) either way."""

    def __post_init__(self) -> None:
        if not (isinstance(self.normalize, bool) or self.normalize == "host"):
            raise InvalidInput(f"normalize={self.normalize!r} is not True, False or 'host'")
        if self.dtype not in _DTYPES:
            known = ", ".join(map(str, _DTYPES))
            raise InvalidInput(f"dtype={self.dtype!r} is not a type for images; use {known}")
        if self.normalize is False and self.dtype is not torch.float32:
            raise InvalidInput(
                f"dtype={self.dtype} is for normalised images, and normalize is False: they stay "
                "bytes; leave one of the two out"
            )
        if not isinstance(self.channels_last, bool):
            raise InvalidInput(f"channels_last={self.channels_last!r} is not True or False")
        _check_device(self.device)


def _check_device(name: str) -> None:
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise InvalidInput(
            f"device={name!r} is not known to PyTorch; use 'cpu', 'cuda' or 'cuda:N'"
        ) from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InvalidInput(
            f"device={name!r} is not there: PyTorch {torch.__version__} sees "
            f"{torch.cuda.device_count()} of its kind; use 'cpu', or install a driver and a build "
            "of PyTorch for it"
        )


@dataclass(frozen=True)
class TensorBatch:
    """One batch as training code sees it."""

    index: int
    images: torch.Tensor
    labels: torch.Tensor
    samples: torch.Tensor
    """Which samples of the dataset they are; always in the host's memory."""
    from_tail: bool = False
    """From which end of the epoch it was taken."""
    extras: dict[str, torch.Tensor] = field(default_factory=dict)
    """What else the pipeline gives each sample, by name."""
    file: MappedFile | None = field(default=None, repr=False, compare=False)
    """The file whose memory the images are, where they are not copied."""

    @property
    def is_whole(self) -> bool:
        """Whether the memory of its images is all there."""
        return self.file is None or self.file.is_whole

    def check_used(self) -> None:
        """Raise where images read as zeros, since somebody cut off their memory."""
        if self.file is not None and self.file.lost:
            raise DamagedBatch(
                f"batch {self.index}: {self.file.location} {CUT_SHORT}; images read as zeros from "
                "there on, and training may have used them: go back to the last checkpoint, and "
                "find out what writes to files of the store"
            )


class ToTensors:
    """Moves batches to their device and normalises them; of one thread at a time."""

    def __init__(self, pipeline: Pipeline, options: TensorOptions | None = None) -> None:
        options = options or TensorOptions()
        device = torch.device(options.device)
        levels = _levels(pipeline) if options.normalize else None
        form = Form(options.dtype if options.normalize else torch.float32, options.channels_last)
        self._buffers = Buffers.for_device(device)
        self._host_images = HostImages(levels, form, self._buffers)
        self._host_first = options.normalize == "host"
        self._accelerator = (
            Accelerator(device, DeviceImages(device, levels, form), self._buffers)
            if device.type != "cpu"
            else None
        )

    def __call__(self, index: int, loaded: Loaded, from_tail: bool = False) -> TensorBatch:
        """Also gives the batch's place in its store back (see `settle`)."""
        tensors = dict(loaded.tensors)
        samples = self._copied(tensors.pop("samples"))
        there = (
            self._kept(tensors)
            if self._accelerator is None
            else self._uploaded(self._accelerator, tensors)
        )
        if loaded.file is not None:
            loaded.file.check_whole()
        lent = _is_lent(there["images"], loaded)
        batch = TensorBatch(
            index=index,
            images=there.pop("images"),
            labels=there.pop("labels"),
            samples=samples,
            from_tail=from_tail,
            extras=there,
            file=loaded.file if lent else None,
        )
        settle(batch, loaded)
        return batch

    def take_over(self, batch: TensorBatch) -> TensorBatch:
        """To be called by the thread that trains: it may use the device by a stream of its own.

        The batch's memory is then used again only once that stream is done with it.
        """
        if self._accelerator is not None:
            for tensor in (batch.images, batch.labels, *batch.extras.values()):
                self._accelerator.used_by_trainer(tensor)
        return batch

    def _uploaded(
        self, accelerator: Accelerator, tensors: dict[str, Array | torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        pixels = tensors["images"]
        if self._host_first and isinstance(pixels, np.ndarray):
            return accelerator(tensors | {"images": self._host_images(pixels)}, made=True)
        return accelerator(tensors)

    def _kept(self, tensors: dict[str, Array | torch.Tensor]) -> dict[str, torch.Tensor]:
        pixels = tensors.pop("images")
        kept = {name: self._copied(what) for name, what in tensors.items()}
        if isinstance(pixels, torch.Tensor):
            return kept | {"images": apart(self._host_images(pixels.numpy()), pixels)}
        return kept | {"images": self._host_images(pixels)}

    def _copied(self, what: Array | torch.Tensor) -> torch.Tensor:
        array = what.numpy() if isinstance(what, torch.Tensor) else what
        copied = self._buffers.take(array.shape, array.dtype)
        np.copyto(copied, array)
        return torch.from_numpy(copied)


def settle(batch: TensorBatch, loaded: Loaded) -> None:
    """Give a batch's place in its store back: at once, or when the last tensor over it is gone.

    That may be in any thread, and in the midst of anything.
    """
    if _is_lent(batch.images, loaded):
        pixels = loaded.tensors["images"]
        weakref.finalize(pixels, _give_back_here, os.getpid(), loaded.give_back)
    else:
        loaded.give_back()


def _give_back_here(process: int, give_back: Callable[[], None]) -> None:
    """A forked child has the same arrays, and lets go of them while its parent uses the file."""
    if os.getpid() == process:
        give_back()


def _is_lent(images: torch.Tensor, loaded: Loaded) -> bool:
    """Whether images are the store's own memory."""
    pixels = loaded.tensors["images"]
    if not loaded.borrowed or not isinstance(pixels, np.ndarray) or images.device.type != "cpu":
        return False
    return images.data_ptr() == pixels.ctypes.data


def _levels(pipeline: Pipeline) -> Levels | None:
    """What late normalising does to levels; None where workers did it, or nobody shall."""
    scale = pipeline.normalize
    return levels_of(scale) if scale is not None and not scale.early else None
