"""The epoch order: a seeded bijection over 0..n-1 that is computed, never stored.

A Feistel network permutes the smallest even-bit domain that holds n; places that fall outside n
walk on along their cycle until they are inside. Any slice costs the same, whatever n is.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ddlp.core.randomness import philox, stream_key

_ROUNDS = 8


@dataclass(frozen=True)
class EpochOrder:
    """The order in which one epoch of a run visits its samples."""

    samples: int
    seed: int
    epoch: int

    def slice(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """The samples at positions start..stop-1 of the order."""
        stop = min(stop, self.samples)
        values = np.arange(start, stop, dtype=np.uint64)
        if self.samples < 2:
            return values.astype(np.int64)
        outside = np.ones(len(values), dtype=bool)
        while outside.any():
            values[outside] = self._permute(values[outside])
            outside = values >= np.uint64(self.samples)
        return values.astype(np.int64)

    @property
    def _half_bits(self) -> int:
        return max(1, ((self.samples - 1).bit_length() + 1) // 2)

    def _permute(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        bits = np.uint64(self._half_bits)
        mask = np.uint64((1 << self._half_bits) - 1)
        key = stream_key(self.seed, "epoch-order")
        left, right = values >> bits, values & mask
        epoch = np.full_like(values, self.epoch & 0xFFFFFFFF)
        zero = np.zeros_like(values)
        for number in range(_ROUNDS):
            word = philox((right, epoch, np.full_like(values, number), zero), key)[..., 0]
            left, right = right, left ^ (word & mask)
        return (left << bits) | right
