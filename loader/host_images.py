"""Makes a batch's images in the host's memory: normalised and laid out in one pass.

The floats are those of workers that normalise early, bit for bit.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ddlp.core.batchfile import Array
from ddlp.core.image import Levels, backend
from ddlp.loader.buffers import Buffers

_BLOCK_VALUES = 32_767
"""That lie between the levels and another type or layout: as many as a cache holds, and as PyTorch
copies without calling for threads, which the trainer needs itself."""


@dataclass(frozen=True)
class Form:
    """What images become, beside their values."""

    dtype: torch.dtype = torch.float32
    """Of floats; levels that are not normalised stay bytes."""
    channels_last: bool = True


class HostImages:
    """Turns pixels (samples, height, width, 3) into images (samples, 3, height, width)."""

    def __init__(self, levels: Levels | None, form: Form, buffers: Buffers) -> None:
        self._levels = levels
        self._form = form
        self._buffers = buffers

    def __call__(self, pixels: Array) -> torch.Tensor:
        """Images over the pixels' own memory where nothing is to be done to them."""
        if self._levels is None and self._is_as_wanted(pixels):
            kept = pixels if pixels.flags.writeable else self._copied(pixels)
            return torch.from_numpy(kept).permute(0, 3, 1, 2)
        if self._levels is None:
            return self._blockwise(pixels, pixels.dtype, np.copyto)
        if self._form == Form():
            floats = self._buffers.take(pixels.shape, np.dtype(np.float32))
            self._normalise(floats, pixels)
            return torch.from_numpy(floats).permute(0, 3, 1, 2)
        return self._blockwise(pixels, np.dtype(np.float32), self._normalise)

    def _is_as_wanted(self, pixels: Array) -> bool:
        same = pixels.dtype == np.uint8 or self._form.dtype == torch.float32
        return same and self._form.channels_last

    def _copied(self, pixels: Array) -> Array:
        copied = self._buffers.take(pixels.shape, pixels.dtype)
        np.copyto(copied, pixels)
        return copied

    def _normalise(self, to: Array, pixels: Array) -> None:
        assert self._levels is not None
        backend().floats(np.ascontiguousarray(pixels), self._levels, to)

    def _blockwise(
        self, pixels: Array, between: np.dtype[Any], fill: Callable[[Array, Array], None]
    ) -> torch.Tensor:
        """Through a block that stays in the cache, to any type and layout."""
        images = self._empty(pixels)
        memory = np.empty(max(_BLOCK_VALUES, math.prod(pixels.shape[2:])), between)
        for samples, rows in _blocks(pixels.shape):
            some = pixels[samples, rows]
            block = memory[: some.size].reshape(some.shape)
            fill(block, some)
            images[samples, :, rows].copy_(torch.from_numpy(block).permute(0, 3, 1, 2))
        return images

    def _empty(self, pixels: Array) -> torch.Tensor:
        samples, height, width, channels = pixels.shape
        is_levels = pixels.dtype == np.uint8 and self._levels is None
        dtype = torch.uint8 if is_levels else self._form.dtype
        unit = np.dtype(f"i{dtype.itemsize}")  # of its size: numpy does not know them all
        if self._form.channels_last:
            array = self._buffers.take(pixels.shape, unit)
            return torch.from_numpy(array).view(dtype).permute(0, 3, 1, 2)
        array = self._buffers.take((samples, channels, height, width), unit)
        return torch.from_numpy(array).view(dtype)


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Samples and rows that lie one after the other: several samples, or a part of one."""
    count, height = shape[:2]
    most_rows = max(1, _BLOCK_VALUES // max(1, math.prod(shape[2:])))
    if most_rows >= height:
        step = most_rows // max(1, height)
        yield from ((slice(at, at + step), slice(None)) for at in range(0, count, step))
        return
    for sample in range(count):
        for row in range(0, height, most_rows):
            yield slice(sample, sample + 1), slice(row, row + most_rows)
