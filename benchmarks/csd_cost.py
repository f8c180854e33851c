"""What do batches that a CSD made cost the trainer's host?

    python -m benchmarks csd_cost

An epoch of batches of 256 is made by the CPU prong, then by an emulated CSD, in turns; the trainer
takes them without normalising. The processes of the emulated CSD stand for the drive's own
processor and are left out; all else on the host counts: trainer with its direct reads and checks,
server, broker. A ratio of 0.1 means a tenth of what the same batches cost when the host
preprocesses them.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks import cpu_time, photos
from benchmarks.bench_stack import BenchStack, bench_stack
from benchmarks.report import Report, interleave

_HOST = "preprocessed by the host"
_CSD = "made by the CSD (emulated), read by the host"


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    batch: int = 256
    batches: int = 24
    rounds: int = 5
    real: bool = True


QUICK = Scale(batches=4, rounds=1)


def measure(quick: bool) -> Report:
    """CPU milliseconds a batch."""
    return measure_at(QUICK if quick else Scale())


def measure_at(scale: Scale) -> Report:
    """Both in turn."""
    report = Report(
        question=f"What do batches that a CSD made cost the trainer's host? (batch {scale.batch})",
        data="",
        unit="CPU ms a batch",
        baseline=_HOST,
        notes=[
            "preprocessed by the host: CPU seconds of making alone, without any overhead",
            "made by the CSD: all CPU seconds of trainer, server and broker; not of its workers",
        ],
    )
    with tempfile.TemporaryDirectory() as scratch:
        found = photos.arrange(Path(scratch), scale.batch * scale.batches, scale.real)
        report.data = found.about
        settings = {"cpu_workers": 1, "csd_devices": 1, "csd_speed": 1.0}
        # On a drive, not on tmpfs: a temporary folder may be either.
        with (
            tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".csd-cost-") as drive,
            bench_stack(Path(scratch) / "home", found.root, csd_store=drive, **settings) as stack,
        ):
            ways = {
                _HOST: lambda: _making_ms(stack, scale),
                _CSD: lambda: _reading_ms(stack, scale),
            }
            return interleave(report, ways, scale.rounds)


def _making_ms(stack: BenchStack, scale: Scale) -> float:
    run = stack.make_run(batch_size=scale.batch, strategy="cpu")
    stack.take(run)
    rows = stack.committed(run)
    return 1000 * sum(row.cpu_s for row in rows) / len(rows)


def _reading_ms(stack: BenchStack, scale: Scale) -> float:
    before_s = _host_cpu_s(stack)
    run = stack.make_run(batch_size=scale.batch, strategy="csd")
    batches = stack.take(run)
    return 1000 * (_host_cpu_s(stack) - before_s) / batches


def _host_cpu_s(stack: BenchStack) -> float:
    """CPU seconds of all that would run on the host if the drive had its own processor."""
    workers = sum(cpu_time.of_tree(pid) for pid in stack.stack.worker_pids())
    return cpu_time.of_tree(os.getpid()) - workers
