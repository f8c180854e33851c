"""Turns a batch as it travelled (uint8, channels last in memory) into tensors for training."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ddlp.core.batchfile import Array
from ddlp.core.pipeline import Pipeline

_UNUSED = 3
"""References to an array that only `Buffers` knows: its list, a name for it, and the question."""
_LEAST_BYTES = 1 << 20
_MOST = 64


@dataclass(frozen=True)
class TensorBatch:
    """One batch as training code sees it."""

    index: int
    images: torch.Tensor
    labels: torch.Tensor
    samples: torch.Tensor
    from_tail: bool = False
    """From which end of the epoch it was taken."""


class ToTensors:
    """Moves a batch to its device and normalises it there, with the pipeline's values."""

    def __init__(self, pipeline: Pipeline, device: str, normalize: bool) -> None:
        self._device = torch.device(device)
        self._buffers = Buffers()
        self._scale: tuple[torch.Tensor, torch.Tensor] | None = None
        scale = pipeline.normalize
        if normalize and scale is not None and not scale.early:
            mean = torch.tensor(scale.mean, device=self._device)
            std = torch.tensor(scale.std, device=self._device)
            # (x / 255 - mean) / std as one multiplication and one addition.
            self._scale = (1 / (255 * std)).view(1, 1, 1, 3), (-mean / std).view(1, 1, 1, 3)

    def __call__(
        self, index: int, arrays: Mapping[str, Array], from_tail: bool = False
    ) -> TensorBatch:
        """Copies: what is returned does not depend on the batch's file any more."""
        pixels = self._copied(arrays["images"])
        if self._scale is not None:
            multiply, add = self._scale
            pixels = self._as_float(pixels).mul_(multiply).add_(add)
        return TensorBatch(
            index=index,
            images=pixels.permute(0, 3, 1, 2),
            labels=self._copied(arrays["labels"]),
            samples=torch.from_numpy(np.array(arrays["samples"])),
            from_tail=from_tail,
        )

    def _copied(self, array: Array) -> torch.Tensor:
        if self._device.type == "cuda":
            pinned = torch.from_numpy(np.array(array)).pin_memory()
            return pinned.to(self._device, non_blocking=True)
        copied = self._buffers.take(array.shape, array.dtype)
        np.copyto(copied, array)
        return torch.from_numpy(copied).to(self._device)

    def _as_float(self, pixels: torch.Tensor) -> torch.Tensor:
        if self._device.type != "cpu":
            return pixels.to(torch.float32)
        wide = self._buffers.take(tuple(pixels.shape), np.dtype(np.float32))
        return torch.from_numpy(wide).copy_(pixels)


class Buffers:
    """Memory that is used again once nobody holds a tensor over it.

    Memory that is new to a process costs more than to fill it: its pages come one by one.
    """

    def __init__(self) -> None:
        self._kept: list[Array] = []

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array of a shape and a type, with whatever is in it."""
        for array in self._kept:
            if array.shape == shape and array.dtype == dtype and sys.getrefcount(array) == _UNUSED:
                return array
        made: Array = np.empty(shape, dtype)
        self._kept = [a for a in self._kept if sys.getrefcount(a) > _UNUSED or a.shape == shape]
        if made.nbytes >= _LEAST_BYTES and len(self._kept) < _MOST:
            self._kept.append(made)
        return made
