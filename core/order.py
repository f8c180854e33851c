"""The epoch order: a seeded bijection over 0..n-1 that is computed, never stored.

A Feistel network permutes the smallest power of two that holds n; places that fall outside n walk
on along their cycle until they are inside. Any slice costs the same, whatever n is.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ddlp.core.randomness import philox, stream_key

_ROUNDS = 10
_LEAST_BITS = 6
"""A smaller network does not mix evenly; a few places more to walk over cost nothing."""
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class EpochOrder:
    """The order in which one epoch of a run visits its samples."""

    samples: int
    seed: int
    epoch: int

    def slice(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """The samples at positions start..stop-1 of the order."""
        values = np.arange(start, min(stop, self.samples), dtype=np.uint64)
        if self.samples > 1:
            keys = self._keys()
            outside = np.ones(len(values), dtype=bool)
            while outside.any():
                values[outside] = self._permute(values[outside], keys)
                outside = values >= np.uint64(self.samples)
        return values.astype(np.int64)

    def _keys(self) -> Words:
        """One 64-bit key a round, from the seed and the epoch."""
        rounds = np.arange(_ROUNDS, dtype=np.uint64)
        epoch = np.full_like(rounds, self.epoch & 0xFFFFFFFF)
        zero = np.zeros_like(rounds)
        words = philox((rounds, epoch, zero, zero), stream_key(self.seed, "epoch-order"))
        keys: Words = (words[:, 0] << np.uint64(32)) | words[:, 1]
        return keys

    def _permute(self, values: Words, keys: Words) -> Words:
        """Two halves, unequal where the bits are odd, are mixed into each other in turn."""
        bits = max(_LEAST_BITS, (self.samples - 1).bit_length())
        low_bits = np.uint64(bits // 2)
        high_mask = np.uint64((1 << (bits - bits // 2)) - 1)
        low_mask = np.uint64((1 << (bits // 2)) - 1)
        high, low = values >> low_bits, values & low_mask
        for place in range(0, _ROUNDS, 2):
            high = high ^ (_scramble(low ^ keys[place]) & high_mask)
            low = low ^ (_scramble(high ^ keys[place + 1]) & low_mask)
        return (high << low_bits) | low


def _scramble(values: Words) -> Words:
    """The finaliser of splitmix64: every bit of the input reaches every bit of the output."""
    values = (values ^ (values >> np.uint64(30))) * _MIX[0]
    values = (values ^ (values >> np.uint64(27))) * _MIX[1]
    return values ^ (values >> np.uint64(31))
