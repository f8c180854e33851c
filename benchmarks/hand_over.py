"""What does it cost to hand a finished batch to the trainer?

    python -m benchmarks hand_over

A uint8 batch of 256 × 224 × 224 × 3 is written by a worker process and lies on tmpfs, in a file
that is used again. It is mapped, checked from end to end and handed over as a tensor; beside it,
the same bytes are copied from memory to memory, and PyTorch's DataLoader hands over the same batch
from its worker process: as float32, as its users have it, and as uint8. Making the batch counts
nowhere. A ratio of 1 means one memory copy.
"""

import multiprocessing
import tempfile
import time
import uuid
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch

from benchmarks.report import Report, interleave
from ddlp.core.batchfile import Array, BatchId, batch_tensors
from ddlp.core.owned_folder import shared_memory
from ddlp.core.pipeline import Pipeline
from ddlp.core.store import FolderStore
from ddlp.loader.readers.base import Wanted
from ddlp.loader.readers.mapped import MappedReader
from ddlp.loader.tensors import TensorOptions, ToTensors

_SAMPLES = 256
_WARM = 2
_COPY = "one memory copy"


def measure(quick: bool) -> Report:
    """Milliseconds a batch."""
    repeats = 3 if quick else 24
    report = Report(
        question="What does it cost to hand a finished batch to the trainer?",
        data=f"{_SAMPLES} × 224 × 224 × 3 uint8, on tmpfs",
        unit="ms a batch",
        baseline=_COPY,
        notes=[
            "mmap: open, map, check every byte, make a tensor, give the file back",
            "DataLoader: one worker that has all samples ready, puts them together and sends them",
            "normalised: float32, with the pipeline's values, in one pass",
        ],
    )
    with tempfile.TemporaryDirectory(dir=shared_memory()) as scratch:
        pixels = _pixels()
        handing = _Handing(Path(scratch))
        copy = np.empty_like(pixels)
        wide = pixels.astype(np.float32)
        ways: dict[str, Callable[[], float]] = {
            _COPY: lambda: _mean_ms(repeats, lambda: np.copyto(copy, pixels)),
            "mmap to uint8": lambda: handing.mean_ms(repeats, normalize=False),
            "mmap to float32, normalised": lambda: handing.mean_ms(repeats, normalize=True),
            "DataLoader, float32": lambda: _data_loader_ms(repeats, wide),
            "DataLoader, uint8": lambda: _data_loader_ms(repeats, pixels),
        }
        try:
            return interleave(report, ways, rounds=1 if quick else 9)
        finally:
            handing.close()


def _pixels() -> Array:
    return np.random.default_rng(1).integers(0, 256, (_SAMPLES, 224, 224, 3), dtype=np.uint8)


def _work(folder: Path, orders: Connection) -> None:
    """A worker: writes a batch for each order."""
    store, pixels = FolderStore(folder), _pixels()

    def fill(arrays: dict[str, Array]) -> int:
        arrays["images"][:] = pixels
        return _SAMPLES

    while (batch := orders.recv()) is not None:
        tensors = batch_tensors(_SAMPLES, (224, 224, 3), "uint8")
        orders.send(store.write(batch, tensors, fill))


class _Handing:
    """A worker process with a store, and a trainer's side of it."""

    def __init__(self, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._orders, theirs = context.Pipe()
        self._worker = context.Process(target=_work, args=(folder, theirs), daemon=True)
        self._worker.start()
        self._reader = MappedReader()
        self._run = uuid.uuid4()
        self._token = 0
        pipeline = Pipeline.preset("imagenet-train")
        self._to = {
            normalize: ToTensors(pipeline, TensorOptions(normalize=normalize))
            for normalize in (False, True)
        }

    def close(self) -> None:
        """End the worker."""
        self._orders.send(None)
        self._worker.join(10)

    def mean_ms(self, repeats: int, normalize: bool) -> float:
        """What reading takes; batches are written in between, into the files given back."""
        taken_s = 0.0
        for turn in range(repeats + _WARM):
            wanted = self._write()
            started = time.perf_counter()
            batch = self._to[normalize](0, self._reader.read(wanted))
            taken_s += (time.perf_counter() - started) * (turn >= _WARM)
            del batch
        return taken_s / repeats * 1000

    def _write(self) -> Wanted:
        self._token += 1
        batch = BatchId(self._run, 0, 0, self._token, _SAMPLES, "00" * 32, "bench", "bench")
        self._orders.send(batch)
        stored = self._orders.recv()
        return Wanted(batch, stored.checksum, stored.nbytes, stored.location)


class _Ready(torch.utils.data.Dataset[torch.Tensor]):
    """A dataset whose samples are ready: all that is left is to put them together and hand over."""

    def __init__(self, batch: Array, count: int) -> None:
        self._samples = torch.from_numpy(batch)
        self._count = count

    def __len__(self) -> int:
        return self._count * len(self._samples)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self._samples[index % len(self._samples)]


def _data_loader_ms(repeats: int, batch: Array) -> float:
    """Time a batch once the worker runs; it hands over one after the other."""
    loader = torch.utils.data.DataLoader(
        _Ready(batch, repeats + _WARM), batch_size=_SAMPLES, num_workers=1, prefetch_factor=1
    )
    batches = iter(loader)
    for _ in range(_WARM):
        next(batches)
    started = time.perf_counter()
    for _ in range(repeats):
        next(batches)
    return (time.perf_counter() - started) / repeats * 1000


def _mean_ms(repeats: int, action: Callable[[], None]) -> float:
    action()  # memory that is new to a process costs more than to fill it
    started = time.perf_counter()
    for _ in range(repeats):
        action()
    return (time.perf_counter() - started) / repeats * 1000
