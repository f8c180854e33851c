"""How much of the engine's speed is left at the end of the path?

    python -m benchmarks path_cost

Two worker processes make batches with `imagenet-train`: the engine called in a bare loop in two
processes, `DualLoader.local`, and the whole stack (server, SQL, Celery, leases, files, loader) with
a consumer that only takes them; all on the same two cores, in turns. A ratio of 1 means that the
way to the trainer costs nothing. Beside the time on the wall stands the share of all CPU seconds of
the run that went into making batches: the machine drifts, and that share does not.
"""

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import cpu_time, photos
from benchmarks.bench_stack import BenchStack, bench_stack, span_s
from benchmarks.contest import Entry, Line
from benchmarks.report import Report, Reports, interleave
from benchmarks.task import IMAGENET_TRAIN, Task
from ddlp.loader import DualLoader

_ENGINE = Entry("bare engine", "ddlp", "late", splits=True)
_SHARE = "CPU seconds spent making, of all"
_WORKERS = 2


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    batch: int
    batches: int
    rounds: int = 7
    real: bool = True

    @property
    def skipped(self) -> int:
        """Commits until the workers have opened the index and files are used again."""
        return self.batches // 4


SCALES = [Scale(256, 32), Scale(64, 96)]
QUICK = [Scale(256, 8, 1), Scale(64, 12, 1)]


def measure(quick: bool) -> Reports:
    """Images a second, by the way they take."""
    return Reports([measure_at(scale) for scale in (QUICK if quick else SCALES)])


def measure_at(scale: Scale) -> Report:
    """All ways in turn."""
    report = Report(
        question=f"How much of the engine's speed is left at the end of the path? "
        f"(batch {scale.batch})",
        data="",
        unit="images/s",
        baseline=_ENGINE.name,
        notes=[
            f"{_WORKERS} worker processes, strategy cpu; the trainer only takes the batches",
            "whole stack: from commit to commit, once it runs steadily",
        ],
    )
    with tempfile.TemporaryDirectory() as scratch:
        found = photos.arrange(Path(scratch), scale.batch * scale.batches, scale.real)
        report.data = found.about
        engine = Line(_ENGINE, _task(scale, found, scratch))
        try:
            home = Path(scratch) / "home"
            with bench_stack(home, found.root, cpu_workers=_WORKERS, csd_devices=0) as stack:
                whole = _Whole(stack, scale)
                ways = {
                    _ENGINE.name: lambda: _rate(engine),
                    "DualLoader.local": lambda: _local(found.root, scale),
                    "whole stack": whole.rate,
                }
                interleave(report, ways, scale.rounds)
        finally:
            engine.close()
    report.beside[_SHARE] = {"whole stack": whole.shares}
    report.beside["ms a batch beside making it"] = {"whole stack": whole.beside_ms}
    return report


def _task(scale: Scale, found: photos.Photos, scratch: str) -> Task:
    return Task(
        contestant=_ENGINE.contestant,
        variant=_ENGINE.variant,
        job=IMAGENET_TRAIN,
        data=str(found.root),
        images=scale.batch * scale.batches,
        different=found.different,
        batch=scale.batch,
        cores=tuple(sorted(os.sched_getaffinity(0)))[:_WORKERS],
        scratch=scratch,
    )


def _rate(line: Line) -> float:
    outcome = line.round()
    return outcome.images / outcome.wall_s


def _local(root: Path, scale: Scale) -> float:
    """The rate from the first batch on that was not made ahead."""
    with DualLoader.local(
        root, batch_size=scale.batch, workers=_WORKERS, strategy="cpu", normalize=False
    ) as loader:
        images, started = 0, 0.0
        for step, (batch, _) in enumerate(loader):
            if step == scale.skipped:
                started = time.perf_counter()
            elif step > scale.skipped:
                images += len(batch)
        return images / (time.perf_counter() - started)


class _Whole:
    """The stack, a run a round."""

    def __init__(self, stack: BenchStack, scale: Scale) -> None:
        self._stack = stack
        self._scale = scale
        self.shares: list[float] = []
        self.beside_ms: list[float] = []

    def rate(self) -> float:
        """Have an epoch made and taken; the rate between its commits."""
        before = cpu_time.of_tree(os.getpid())
        run = self._stack.make_run(batch_size=self._scale.batch, strategy="cpu")
        self._stack.take(run)
        used_s = cpu_time.of_tree(os.getpid()) - before
        rows = self._stack.committed(run)
        making_s = sum(row.cpu_s for row in rows)
        self.shares.append(making_s / used_s)
        self.beside_ms.append(1000 * (used_s - making_s) / len(rows))
        steady = rows[self._scale.skipped :]
        return sum(row.samples for row in steady[1:]) / span_s(steady)
