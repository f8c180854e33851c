"""DDLP through its loader: worker processes, batches in shared memory, tensors for training.

Batches arrive as uint8, as they would travel to an accelerator.
"""

import time
from collections.abc import Iterator
from typing import Any

from benchmarks.task import Loader, Task
from ddlp.core.image import engine_name
from ddlp.loader import DualLoader

_AT_ONCE_S = 0.005
_MOST_AHEAD = 256


def prepare(task: Task) -> Loader:
    """As many workers as cores, all on these cores with the training process."""
    loader = DualLoader.local(
        task.data,
        pipeline=task.job,
        batch_size=task.batch,
        epochs=1_000_000,
        strategy="cpu",
        workers=len(task.cores),
        normalize=False,
    )

    def endless() -> Iterator[Any]:
        while True:
            for images, _ in loader:
                yield images

    source = endless()

    def batches() -> Iterator[Any]:
        for _ in range(task.batches):
            yield next(source)

    def drain() -> None:
        """What was made ahead comes at once; the first that must be waited for ends it."""
        for _ in range(_MOST_AHEAD):
            started = time.perf_counter()
            next(source)
            if time.perf_counter() - started > _AT_ONCE_S:
                return

    return Loader(f"engine {engine_name()}, {len(task.cores)} workers", batches, drain)
