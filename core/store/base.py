"""What a batch store is to a worker: a place that takes batches whole, and forgets them."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ddlp.core.batchfile import Array, BatchId, TensorSpec

Fill = Callable[[dict[str, Array]], int]
"""Writes into the memory of a batch, and says how many samples it wrote."""


@dataclass(frozen=True)
class StoredBatch:
    """A batch that was published: where it lies and what it should contain."""

    location: str
    nbytes: int
    checksum: int


@dataclass(frozen=True)
class Room:
    """How full a store is; None where it has no end, or nobody knows."""

    used_bytes: int | None
    free_bytes: int | None
    """What it would still take, by its quota and by its filesystem."""


class BatchStore(Protocol):
    """Keeps the batches of one device."""

    def write(self, batch: BatchId, tensors: Sequence[TensorSpec], fill: Fill) -> StoredBatch:
        """Make one batch: `fill` writes into its memory, then it appears under its final name.

        Where `fill` left samples out, the batch is shorter. Raises `NoRoom` where it does not fit.
        """

    def discard(self, run: uuid.UUID, epoch: int, index: int, token: int) -> None:
        """Forget what an attempt left that counts no more."""

    def remove_run(self, run: uuid.UUID) -> None:
        """Forget all batches of a run."""

    def runs(self) -> dict[uuid.UUID, float]:
        """The runs of which there is something, and for how many seconds nothing has changed."""

    def room(self) -> Room:
        """How full it is."""

    def relax(self) -> None:
        """Let go of memory that was kept for the next batch."""
