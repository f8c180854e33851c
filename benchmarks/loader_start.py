"""How long does a loader take to its first batch, and what does its state cost?

    python -m benchmarks loader_start

Runs over datasets of 10^4 and 10^7 tiny pictures: from creating the run to the first batch in
training code, through the whole stack. Beside it, the time of `state_dict()` and the bytes of its
state as JSON, in the middle of an epoch. None of them may grow with the dataset.
"""

import json
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.bench_stack import BenchStack, bench_stack
from benchmarks.report import Report
from ddlp.loader import DualLoader

_STATES = 200


def measure(quick: bool) -> Report:
    """Seconds from creating a run to its first batch."""
    sizes, rounds = ((10**3, 10**4), 1) if quick else ((10**4, 10**7), 5)
    names = [f"{size:,} samples" for size in sizes]
    report = Report(
        question="How long does a loader take to its first batch?",
        data="2 × 2 pictures from memory, batches of 256, strategy wrr",
        unit="s",
        baseline=names[0],
        rounds={name: [] for name in names},
        beside={
            "ms a state_dict()": {name: [] for name in names},
            "bytes of a state": {name: [] for name in names},
        },
    )
    with tempfile.TemporaryDirectory() as scratch:
        paths = [_write(Path(scratch) / "data" / f"{size}.npz", size) for size in sizes]
        home = Path(scratch) / "home"
        with bench_stack(home, *paths, cpu_workers=1, csd_devices=1) as stack:
            for _ in range(rounds):
                for name, dataset in zip(names, ("data", "data-1"), strict=True):
                    _start(stack, report, name, dataset)
    return report


def _write(path: Path, samples: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    np.savez(path, x=np.zeros((samples, 2, 2, 3), np.uint8), y=np.zeros(samples, np.int64))
    return path


def _start(stack: BenchStack, report: Report, name: str, dataset: str) -> None:
    started = time.perf_counter()
    run = stack.make_run(dataset=dataset, batch_size=256, pipeline="cifar-val")
    with DualLoader(run=run, url=stack.stack.url) as loader:
        batches = loader.batches()
        next(batches)
        report.rounds[name].append(time.perf_counter() - started)
        for _ in range(2):
            next(batches)
        asked = time.perf_counter()
        for _ in range(_STATES):
            state = loader.state_dict()
        spent_s = time.perf_counter() - asked
        report.beside["ms a state_dict()"][name].append(1000 * spent_s / _STATES)
        report.beside["bytes of a state"][name].append(len(json.dumps(state)))
        batches.close()
    stack.client.post(f"/runs/{run}/cancel")
