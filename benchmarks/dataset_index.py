"""What does an index of ten million samples cost a worker?

    python -m benchmarks dataset_index

Indexes of synthetic datasets are written, and each is opened by a new process, which then asks for
the heads, the labels and the names of random batches. The time to open it and the resident memory
must not grow with the number of samples: what a worker needs is mapped, looked up and let go of.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.report import Report
from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.layout import ROW
from ddlp.core.dataset.writer import IndexHead, index_writer

_ROOT = Path("/nowhere")
_PIECE = 1 << 17
_NAME_BYTES = 40
_HEIGHTS = 400


def measure(quick: bool) -> Report:
    """Milliseconds to open an index; beside it, memory and the time a sample takes."""
    sizes = (1_000, 100_000) if quick else (100_000, 1_000_000, 10_000_000)
    report = Report(
        question="What does an index of ten million samples cost a worker?",
        data=f"synthetic samples with names of {_NAME_BYTES} bytes, 1000 classes",
        unit="ms to open",
        baseline=f"{sizes[0]:,} samples",
        notes=[
            "MiB resident: what the index and 60 batches of 1024 random samples added to a new "
            "process at the most; the file's pages are in the page cache",
            "µs a sample: head, label and name; MiB: the index file",
        ],
    )
    with tempfile.TemporaryDirectory() as scratch:
        paths = {f"{samples:,} samples": Path(scratch) / f"{samples}.idx" for samples in sizes}
        for samples, path in zip(sizes, paths.values(), strict=True):
            write_synthetic(path, samples)
        found: dict[str, list[dict[str, float]]] = {way: [] for way in paths}
        for _ in range(2 if quick else 5):
            for way, path in paths.items():
                found[way].append(use_elsewhere(path))
        mebibytes = {way: [path.stat().st_size / 2**20] for way, path in paths.items()}
    report.rounds = _figures(found, "open_s", 1e3)
    report.beside = {
        "MiB resident": _figures(found, "most_bytes", 2**-20),
        "µs a sample": _figures(found, "sample_s", 1e6),
        "MiB": mebibytes,
    }
    return report


def _figures(
    found: dict[str, list[dict[str, float]]], name: str, scale: float
) -> dict[str, list[float]]:
    return {way: [each[name] * scale for each in rounds] for way, rounds in found.items()}


def write_synthetic(
    into: Path, samples: int, name_bytes: int = _NAME_BYTES, classes: int = 1000
) -> None:
    """Write an index of samples that are nowhere; its name and head tell a sample's number."""
    with index_writer(into) as writer:
        for start in range(0, samples, _PIECE):
            numbers = np.arange(start, min(samples, start + _PIECE))
            rows = np.zeros(len(numbers), dtype=ROW)
            rows["name_end"] = np.arange(1, len(numbers) + 1) * name_bytes
            rows["size"], rows["time_ns"] = 100_000 + numbers, numbers
            rows["label"] = numbers % classes
            rows["width"], rows["height"], rows["orientation"] = 500, 1 + numbers % _HEIGHTS, 1
            names = "".join(f"{number:0{name_bytes}d}" for number in numbers.tolist())
            writer.samples.extend(rows, names.encode())
        named = tuple(f"class {number}" for number in range(classes))
        writer.finish(IndexHead("folder", _ROOT, named), into)


def use_elsewhere(path: Path) -> dict[str, float]:
    """What `use` finds in a process that has used no index before."""
    command = [sys.executable, "-m", "benchmarks.dataset_index", str(path)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(said)
    return found


def use(path: Path, batch: int = 1024, batches: int = 60) -> dict[str, float]:
    """Open an index and ask for all that a worker asks for."""
    drawn = np.random.default_rng(1)
    before = resident_bytes()
    started = time.perf_counter()
    index = DatasetIndex(path)
    open_s = time.perf_counter() - started
    opened, most, spent_s = resident_bytes() - before, 0, 0.0
    for _ in range(batches):
        samples = drawn.integers(0, index.samples, batch)
        started = time.perf_counter()
        heads, labels = index.heads(samples), index.labels(samples)
        looked_up = time.perf_counter()
        most = max(most, resident_bytes() - before)
        named = time.perf_counter()
        names = [index.name(sample) for sample in samples.tolist()]
        spent_s += time.perf_counter() - named + looked_up - started
        most = max(most, resident_bytes() - before)
        index.relax()
        assert np.array_equal(heads.height, 1 + samples % _HEIGHTS)
        assert np.array_equal(labels, samples % len(index.classes))
        assert [int(name.removeprefix(f"{_ROOT}/")) for name in names] == samples.tolist()
    return {
        "samples": index.samples,
        "open_s": open_s,
        "opened_bytes": opened,
        "most_bytes": most,
        "left_bytes": resident_bytes() - before,
        "sample_s": spent_s / (batch * batches),
    }


def resident_bytes() -> int:
    """The resident memory of this process, mapped files included."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise LookupError("the kernel does not say")


if __name__ == "__main__":
    json.dump(use(Path(sys.argv[1])), sys.stdout)
