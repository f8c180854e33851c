"""What does telemetry cost?

    python -m benchmarks telemetry_cost

Two stacks on the same two cores, one with `DDLP_TELEMETRY` on and one with it off, make and take
the same epoch in turns: stage times, accounts, spans, roll-ups by stage and the host's sampler
against counts alone. A ratio of 0.99 means that it costs one hundredth of the throughput. Beside it
stand the CPU seconds of everything but making batches, which the machine's noise moves less.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import cpu_time, photos
from benchmarks.bench_stack import BenchStack, bench_stack, span_s
from benchmarks.report import Report, interleave

_WORKERS = 2
_ON, _OFF = "telemetry on", "telemetry off"
_VARIABLE = "DDLP_TELEMETRY"


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    batch: int = 64
    batches: int = 160
    rounds: int = 11
    real: bool = True


def measure(quick: bool) -> Report:
    """Images a second with and without."""
    return measure_at(Scale(batches=12, rounds=1) if quick else Scale())


def measure_at(scale: Scale) -> Report:
    """Both in turn."""
    report = Report(
        question=f"What does telemetry cost? (batch {scale.batch})",
        data="",
        unit="images/s",
        baseline=_OFF,
        notes=[f"{_WORKERS} worker processes, strategy cpu; the trainer only takes the batches"],
    )
    with tempfile.TemporaryDirectory() as scratch:
        found = photos.arrange(Path(scratch), scale.batch * scale.batches, scale.real)
        report.data = found.about
        shared = {"cpu_workers": _WORKERS, "csd_devices": 0}
        with (
            bench_stack(Path(scratch) / "on", found.root, telemetry=True, **shared) as on,
            bench_stack(Path(scratch) / "off", found.root, telemetry=False, **shared) as off,
        ):
            sides = {_OFF: _Side(off, False, scale), _ON: _Side(on, True, scale)}
            interleave(report, {name: side.rate for name, side in sides.items()}, scale.rounds)
        report.beside["ms a batch beside making it"] = {
            name: side.beside_ms for name, side in sides.items()
        }
    return report


class _Side:
    """One of the stacks, a run a round."""

    def __init__(self, stack: BenchStack, telemetry: bool, scale: Scale) -> None:
        self._stack = stack
        self._telemetry = telemetry
        self._scale = scale
        self.beside_ms: list[float] = []

    def rate(self) -> float:
        """Have an epoch made and taken; the rate between its commits."""
        before = cpu_time.of_tree(os.getpid())
        run = self._stack.make_run(batch_size=self._scale.batch, strategy="cpu")
        with _told(self._telemetry):
            self._stack.take(run)
        used_s = cpu_time.of_tree(os.getpid()) - before
        rows = self._stack.committed(run)
        self.beside_ms.append(1000 * (used_s - sum(row.cpu_s for row in rows)) / len(rows))
        steady = rows[len(rows) // 8 :]
        return sum(row.samples for row in steady[1:]) / span_s(steady)


@contextmanager
def _told(telemetry: bool) -> Iterator[None]:
    """The loader of this process is set by its environment."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = str(telemetry)
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
        if before is not None:
            os.environ[_VARIABLE] = before
