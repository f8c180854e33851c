"""Memory for batches that is used again once nobody holds a tensor over it.

Memory that is new to a process costs more than to fill it: its pages come one by one. It begins at
a page, as direct transfers need it, and is pinned where it feeds an accelerator.
"""

import math
import sys
import weakref
from typing import Any, Self

import numpy as np
import torch

from ddlp.core.batchfile import Array
from ddlp.core.direct import page_memory
from ddlp.loader.pinning import Pinning, pinning_for

_LEAST_BYTES = 1 << 20
_MOST = 64


def _unused() -> int:
    """References to an array that only a list knows, as counted in a loop over it."""
    for array in [np.empty(0)]:
        return sys.getrefcount(array)
    raise AssertionError


_UNUSED = _unused()
"""Interpreters count differently, so that it is found out."""


class Buffers:
    """The buffers of one thread."""

    def __init__(self, pinning: Pinning | None = None) -> None:
        self._kept: list[Array] = []
        self._pinning = pinning

    @classmethod
    def for_device(cls, device: torch.device | str) -> Self:
        """Buffers that feed a device: pinned where it is an accelerator that gains by it."""
        return cls(pinning_for(device))

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array of a shape and a type, with whatever is in it."""
        for array in self._kept:
            if array.shape == shape and array.dtype == dtype and sys.getrefcount(array) == _UNUSED:
                return array
        made = self._new(shape, dtype)
        self._kept = [a for a in self._kept if sys.getrefcount(a) > _UNUSED or a.shape == shape]
        if made.nbytes >= _LEAST_BYTES and len(self._kept) < _MOST:
            self._kept.append(made)
        return made

    def _new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        count = math.prod(shape)
        if count * dtype.itemsize < _LEAST_BYTES:
            return np.empty(shape, dtype)
        # Of its shape from the start: a slice holds the array that the memory was given to, and a
        # reshaped one would be let go of while its slices are in use.
        made: Array = np.ndarray(shape, dtype, buffer=page_memory(count * dtype.itemsize))
        if self._pinning is not None:
            self._pinning.pin(made.ctypes.data, made.nbytes)
            # Every array over the memory holds this one, and it goes before the memory does.
            weakref.finalize(made, self._pinning.unpin, made.ctypes.data)
        return made
