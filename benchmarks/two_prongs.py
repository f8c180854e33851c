"""Do both prongs together make what each makes alone, added up?

    python -m benchmarks two_prongs

A CPU prong of one worker process and an emulated CSD, on two cores, make batches of 256: alone
(strategies `cpu` and `csd`), then together with each strategy that uses both. A ratio of 1 means
that neither waits for the other, and that nothing is made twice. Rates are from the run's first
commit to its last, the end of the epoch included.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks import photos
from benchmarks.bench_stack import BenchStack, bench_stack, span_s
from benchmarks.report import Report

_TOGETHER = ("wrr", "bounded", "mte")
_SUM = "cpu + csd, each alone"


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    batch: int = 256
    batches: int = 40
    rounds: int = 5
    speed: float = 0.5
    real: bool = True


QUICK = Scale(batches=6, rounds=1)


def measure(quick: bool) -> Report:
    """Images a second."""
    return measure_at(QUICK if quick else Scale())


def measure_at(scale: Scale) -> Report:
    """All strategies in turn; those alone first, so that devices are calibrated."""
    report = Report(
        question=f"Do both prongs together make what each makes alone? (batch {scale.batch})",
        data="",
        unit="images/s",
        baseline=_SUM,
        notes=[
            f"one CPU worker and one CSD emulated at {scale.speed} of a core, two cores in all",
            "the trainer only takes the batches; from the first commit to the last",
        ],
    )
    alone: dict[str, list[float]] = {"cpu": [], "csd": []}
    report.rounds = {_SUM: [], **{name: [] for name in _TOGETHER}}
    with tempfile.TemporaryDirectory() as scratch:
        found = photos.arrange(Path(scratch), scale.batch * scale.batches, scale.real)
        report.data = found.about
        settings = {"cpu_workers": 1, "csd_devices": 1, "csd_speed": scale.speed}
        with bench_stack(Path(scratch) / "home", found.root, **settings) as stack:
            for _ in range(scale.rounds):
                for name, rates in alone.items():
                    rates.append(_rate(stack, scale, name))
                report.rounds[_SUM].append(alone["cpu"][-1] + alone["csd"][-1])
                for name in _TOGETHER:
                    report.rounds[name].append(_rate(stack, scale, name))
    report.notes += [f"{name} alone: {rates}" for name, rates in alone.items()]
    return report


def _rate(stack: BenchStack, scale: Scale, strategy: str) -> float:
    run = stack.make_run(batch_size=scale.batch, strategy=strategy)
    stack.take(run)
    rows = stack.committed(run)
    return sum(row.samples for row in rows[1:]) / span_s(rows)
