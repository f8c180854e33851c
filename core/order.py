"""The epoch order: a seeded bijection over 0..n-1 that is computed, never stored.

Any slice costs the same, whatever n is.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ddlp.core.feistel import ROUNDS, Words
from ddlp.core.image import backend
from ddlp.core.randomness import philox, stream_key


@dataclass(frozen=True)
class EpochOrder:
    """The order in which one epoch of a run visits its samples."""

    samples: int
    seed: int
    epoch: int

    def slice(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """The samples at positions start..stop-1 of the order."""
        places = np.arange(start, min(stop, self.samples), dtype=np.uint64)
        if self.samples > 1:
            places = backend().permuted(places, self._keys(), self.samples)
        return places.astype(np.int64)

    def _keys(self) -> Words:
        """One 64-bit key a round, from the seed and the epoch."""
        rounds = np.arange(ROUNDS, dtype=np.uint64)
        epoch = np.full_like(rounds, self.epoch & 0xFFFFFFFF)
        zero = np.zeros_like(rounds)
        words = philox((rounds, epoch, zero, zero), stream_key(self.seed, "epoch-order"))
        keys: Words = (words[:, 0] << np.uint64(32)) | words[:, 1]
        return keys
