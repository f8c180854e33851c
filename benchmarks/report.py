"""What a benchmark found, as JSON for programs and as a table for people."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass
class Report:
    """Rounds of several ways to do the same thing, measured in turn."""

    question: str
    data: str
    unit: str
    baseline: str
    rounds: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    beside: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Further figures of the same rounds, by what they are and by way."""

    def medians(self) -> dict[str, float]:
        return {name: statistics.median(values) for name, values in self.rounds.items()}

    def ratios(self) -> dict[str, float]:
        """The median over the rounds of each way's ratio to the baseline in the same round."""
        base = self.rounds[self.baseline]
        return {
            name: statistics.median(a / b for a, b in zip(values, base, strict=True))
            for name, values in self.rounds.items()
        }

    def table(self) -> str:
        heads = ["way", f"median {self.unit}", f"ratio to {self.baseline}", *self.beside]
        lines = [
            f"### {self.question}",
            "",
            f"Data: {self.data}. Machine: {machine()}. Rounds: {len(self.rounds[self.baseline])}.",
            "",
            f"| {' | '.join(heads)} |",
            "|" + "---|" * len(heads),
            *(f"| {' | '.join(self._row(name))} |" for name in self.rounds),
            *([""] if self.notes else []),
            *(f"- {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def found(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {**asdict(self), "medians": self.medians(), "ratios": self.ratios()}

    def _row(self, name: str) -> list[str]:
        others = (figures.get(name) for figures in self.beside.values())
        return [
            name,
            shown(self.medians()[name]),
            f"{self.ratios()[name]:.3f}",
            *(shown(statistics.median(values)) if values else "–" for values in others),
        ]


@dataclass
class Reports:
    """Several reports of one benchmark."""

    parts: list[Report]

    def table(self) -> str:
        return "\n\n".join(part.table() for part in self.parts)

    def found(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {"parts": [part.found() for part in self.parts]}


def interleave(report: Report, ways: dict[str, Callable[[], float]], rounds: int) -> Report:
    """Measure all ways in turn, again and again: a noisy machine is noisy for all of them."""
    report.rounds = {name: [] for name in ways}
    for _ in range(rounds):
        for name, measure in ways.items():
            report.rounds[name].append(measure())
    return report


def write(name: str, report: Report | Reports, keep: bool) -> str:
    """Keep the figures, and give the table."""
    table = report.table()
    if keep:
        RESULTS.mkdir(exist_ok=True)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        found = {**report.found(), "machine": machine(), "at": at}
        (RESULTS / f"{name}.json").write_text(
            json.dumps(found, indent=2, ensure_ascii=False) + "\n"
        )
        (RESULTS / f"{name}.md").write_text(table + "\n")
    return table


def shown(value: float) -> str:
    """A figure for people."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
