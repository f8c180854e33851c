"""What does it cost to hand a finished batch to the trainer?

    python -m benchmarks hand_over

A uint8 batch of 64 × 224 × 224 × 3 lies on tmpfs. It is mapped, checked against its checksum and
copied into a tensor; beside it, the same bytes are copied from memory to memory. A ratio of 1 means
that the file, its header and its checksum cost nothing.
"""

import tempfile
import time
import uuid
from pathlib import Path

import numpy as np
import torch

from benchmarks.report import Report, interleave
from ddlp.core.batchfile import Array, BatchId, batch_tensors
from ddlp.core.owned_folder import shared_memory
from ddlp.core.pipeline import Pipeline
from ddlp.core.store import BatchStore, StoredBatch, read_batch
from ddlp.loader.tensors import ToTensors

_SAMPLES = 64
_REPEATS = 50


def measure(quick: bool) -> Report:
    """Milliseconds a batch."""
    report = Report(
        question="What does it cost to hand a finished batch to the trainer?",
        data=f"{_SAMPLES} × 224 × 224 × 3 uint8 on tmpfs",
        unit="ms a batch",
        baseline="one memory copy",
        notes=["file: map, checksum, copy into a tensor; float32: normalised as well"],
    )
    with tempfile.TemporaryDirectory(dir=shared_memory()) as scratch:
        batch, stored = _make(Path(scratch))
        path, checksum = stored.path, stored.checksum
        pixels = np.array(read_batch(path, batch, checksum)["images"])
        pipeline = Pipeline.preset("imagenet-train")
        plain = ToTensors(pipeline, "cpu", normalize=False)
        scaled = ToTensors(pipeline, "cpu", normalize=True)
        ways = {
            "one memory copy": lambda: _time(lambda: torch.from_numpy(pixels.copy())),
            "file to uint8": lambda: _time(lambda: plain(0, read_batch(path, batch, checksum))),
            "file to float32": lambda: _time(lambda: scaled(0, read_batch(path, batch, checksum))),
        }
        return interleave(report, ways, rounds=2 if quick else 9)


def _make(folder: Path) -> tuple[BatchId, StoredBatch]:
    batch = BatchId(
        run=uuid.uuid4(),
        epoch=0,
        index=0,
        token=1,
        samples=_SAMPLES,
        pipeline="00" * 32,
        engine="bench",
        device="bench",
    )

    def fill(arrays: dict[str, Array]) -> int:
        arrays["images"][:] = np.random.default_rng(1).integers(0, 256, arrays["images"].shape)
        return _SAMPLES

    tensors = batch_tensors(_SAMPLES, (224, 224, 3), "uint8")
    return batch, BatchStore(folder).write(batch, tensors, fill)


def _time(action: object) -> float:
    assert callable(action)
    started = time.perf_counter()
    for _ in range(_REPEATS):
        action()
    return (time.perf_counter() - started) / _REPEATS * 1000
