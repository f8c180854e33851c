"""How many batches a second pass the whole stack when making one takes no time?

    python -m benchmarks round_trip

Batches of one small picture from memory: whatever is measured is the way there and back: leases,
Celery, SQL, files, HTTP and the loader. Beside it, CPU milliseconds a batch of all processes.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import cpu_time
from benchmarks.bench_stack import BenchStack, bench_stack
from benchmarks.report import Report, interleave


def measure(quick: bool) -> Report:
    """Batches a second."""
    batches, rounds = (200, 1) if quick else (3000, 5)
    report = Report(
        question="How many batches a second pass the whole stack with an empty kernel?",
        data=f"{batches} batches of one 32 × 32 picture from memory",
        unit="batches/s",
        baseline="one worker process",
        notes=["the trainer only takes the batches; strategy cpu"],
    )
    spent: dict[str, list[float]] = {"one worker process": []}
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data" / "small.npz"
        data.parent.mkdir()
        pictures = np.zeros((batches, 32, 32, 3), np.uint8)
        np.savez(data, x=pictures, y=np.zeros(batches, np.int64))
        with bench_stack(Path(scratch) / "home", data, cpu_workers=1, csd_devices=0) as stack:
            ways = {"one worker process": lambda: _rate(stack, batches, spent)}
            interleave(report, ways, rounds)
    report.beside["CPU ms a batch"] = spent
    return report


def _rate(stack: BenchStack, batches: int, spent: dict[str, list[float]]) -> float:
    run = stack.make_run(batch_size=1, strategy="cpu", pipeline="cifar-val")
    before, started = cpu_time.of_tree(os.getpid()), time.perf_counter()
    taken = stack.take(run)
    wall_s = time.perf_counter() - started
    assert taken == batches
    used_s = cpu_time.of_tree(os.getpid()) - before
    spent["one worker process"].append(1000 * used_s / batches)
    return batches / wall_s
