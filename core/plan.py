"""The plan of a run: which samples make up batch k of epoch e, a pure function of a few numbers."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ddlp.core.order import EpochOrder


@dataclass(frozen=True)
class RunPlan:
    """What decides the batches of a run, apart from the dataset's and the pipeline's content."""

    samples: int
    batch_size: int
    epochs: int
    seed: int
    world_size: int = 1

    def __post_init__(self) -> None:
        for name, least in (("samples", 0), ("batch_size", 1), ("epochs", 1), ("world_size", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}")

    @property
    def batches(self) -> int:
        """Batches an epoch; the last one may be short."""
        return -(-self.samples // self.batch_size)

    def batch_samples(self, epoch: int, index: int) -> npt.NDArray[np.int64]:
        """The sample numbers of one batch, in their order."""
        start = index * self.batch_size
        return EpochOrder(self.samples, self.seed, epoch).slice(start, start + self.batch_size)

    def batch_length(self, index: int) -> int:
        """How many samples a batch has."""
        return min(self.batch_size, self.samples - index * self.batch_size)

    def rank_batches(self, rank: int) -> int:
        """How many batches of an epoch one rank receives; ranks differ by one at the most."""
        return self.batches // self.world_size + (rank < self.batches % self.world_size)
