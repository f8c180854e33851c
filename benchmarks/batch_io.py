"""How fast do batches go to a drive and come from it, beside what the drive can do?

    python -m benchmarks batch_io

Batches of 256 × 224 × 224 × 3 uint8 lie on a drive (a folder beside the project). They are read
with the `direct` reader, checked from end to end, and written by the store of a CSD, sealed and
published; beside it fio (or dd where there is no fio) transfers the same files with O_DIRECT at the
same queue depth. A ratio of 1 means that the drive is the limit.
"""

import json
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.report import Report, Reports, interleave
from ddlp.core.batchfile import Array, BatchId, TensorSpec, batch_tensors
from ddlp.core.direct import DEPTH, SLICE_BYTES
from ddlp.core.filesystem import filesystem_at
from ddlp.core.store import FolderStore, StoredBatch, path_of, release
from ddlp.loader.buffers import Buffers
from ddlp.loader.readers.base import Wanted
from ddlp.loader.readers.direct import DirectReader

_SAMPLES = 256
_FILES = 12
_LOOPS = 5
"""How often all files are transferred for one figure: a drive's speed varies."""


def measure(quick: bool) -> Reports:
    """Megabytes a second, read and written."""
    with _batches(2 if quick else _FILES) as batches:
        rounds = 1 if quick else 11
        return Reports([_reading(batches, rounds), _writing(batches, rounds)])


@dataclass(frozen=True)
class Batches:
    """Batches on a drive."""

    folder: Path
    store: FolderStore
    stored: list[tuple[BatchId, StoredBatch]]

    @property
    def nbytes(self) -> int:
        return sum(stored.nbytes for _, stored in self.stored)

    @property
    def files(self) -> list[Path]:
        return [path_of(stored.location) for _, stored in self.stored]

    def write(self) -> None:
        """Write all of them again, into the files that are there."""
        for path in self.files:
            release(path)
        for batch, _ in self.stored:
            self.store.write(batch, _tensors(), lambda arrays: _SAMPLES)


@contextmanager
def _batches(count: int) -> Iterator[Batches]:
    folder = Path(tempfile.mkdtemp(dir=Path(__file__).parent, prefix=".batch-io-"))
    try:
        store = FolderStore(folder)
        run = uuid.uuid4()
        stored = []
        for index in range(count):
            batch = BatchId(run, 0, index, index + 1, _SAMPLES, "00" * 32, "bench", "bench")
            stored.append((batch, store.write(batch, _tensors(), _noise)))
        yield Batches(folder, store, stored)
    finally:
        shutil.rmtree(folder)


def _tensors() -> list[TensorSpec]:
    return batch_tensors(_SAMPLES, (224, 224, 3), "uint8")


def _noise(arrays: dict[str, Array]) -> int:
    arrays["images"][:] = np.random.default_rng(1).integers(0, 256, arrays["images"].shape)
    return _SAMPLES


def _reading(batches: Batches, rounds: int) -> Report:
    reader = DirectReader(Buffers())
    wanted = [Wanted(b, s.checksum, s.nbytes, s.location) for b, s in batches.stored]

    def read() -> None:
        for place, one in enumerate(wanted):  # as the loader does
            for begun in wanted[place : place + 2]:
                reader.expect(begun)
            reader.read(one)

    report = _report("How fast are batches read from a drive?", batches)
    tool, transfer = _tool(batches, "read")
    report.baseline = tool
    ways = {tool: transfer, "direct reader, checked": lambda: _rate(read, batches.nbytes)}
    return interleave(report, ways, rounds)


def _writing(batches: Batches, rounds: int) -> Report:
    report = _report("How fast are batches written to a drive?", batches)
    tool, transfer = _tool(batches, "write")
    report.baseline = tool
    ways = {
        "store, sealed and published": lambda: _rate(batches.write, batches.nbytes),
        tool: transfer,
    }
    interleave(report, ways, rounds)
    batches.write()  # what the tool wrote over
    return report


def _report(question: str, batches: Batches) -> Report:
    count, kind = len(batches.stored), filesystem_at(batches.folder).kind
    each = batches.nbytes / count / 1e6
    return Report(
        question=question,
        data=f"{count} batches of {_SAMPLES} × 224 × 224 × 3 uint8, {each:.1f} MB each, on {kind}",
        unit="MB/s",
        baseline="",
        notes=[f"queue depth {DEPTH}, slices of {SLICE_BYTES >> 20} MiB; fio with its own memory"],
    )


def _rate(action: Callable[[], None], nbytes: int) -> float:
    started = time.perf_counter()
    for _ in range(_LOOPS):
        action()
    return _LOOPS * nbytes / (time.perf_counter() - started) / 1e6


def _tool(batches: Batches, what: str) -> tuple[str, Callable[[], float]]:
    if shutil.which("fio"):
        return f"fio, depth {DEPTH}", lambda: _fio(batches, what)
    return "dd, depth 1", lambda: _dd(batches, what)


def _fio(batches: Batches, what: str) -> float:
    names = ":".join(str(path).replace(":", r"\:") for path in batches.files)
    command = [
        "fio",
        "--name=batches",
        f"--filename={names}",
        f"--rw={what}",
        f"--bs={SLICE_BYTES}",
        "--direct=1",
        "--overwrite=1",
        f"--loops={_LOOPS}",
        "--ioengine=libaio",
        f"--iodepth={DEPTH}",
        "--file_service_type=sequential",
        "--output-format=json",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(json.loads(said)["jobs"][0][what]["bw_bytes"]) / 1e6


def _dd(batches: Batches, what: str) -> float:
    started = time.perf_counter()
    for path in batches.files * _LOOPS:
        ends = (f"if={path}", "of=/dev/null", "iflag=direct")
        if what == "write":
            ends = ("if=/dev/zero", f"of={path}", "oflag=direct")
        count = path.stat().st_size // SLICE_BYTES
        size = [f"bs={SLICE_BYTES}", f"count={count}", "conv=notrunc"]
        subprocess.run(["dd", *ends, *size], capture_output=True, check=True)
    return _LOOPS * batches.nbytes / (time.perf_counter() - started) / 1e6
