"""What a benchmark found, as JSON for programs and as a table for people."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

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
        medians, ratios = self.medians(), self.ratios()
        lines = [
            f"### {self.question}",
            "",
            f"Data: {self.data}. Machine: {machine()}. Rounds: {len(self.rounds[self.baseline])}.",
            "",
            f"| way | median {self.unit} | ratio to {self.baseline} |",
            "|---|---|---|",
            *(f"| {name} | {medians[name]:.4g} | {ratios[name]:.3f} |" for name in self.rounds),
            "",
            *(f"- {note}" for note in self.notes),
        ]
        return "\n".join(lines)


def interleave(report: Report, ways: dict[str, Callable[[], float]], rounds: int) -> Report:
    """Measure all ways in turn, again and again: a noisy machine is noisy for all of them."""
    report.rounds = {name: [] for name in ways}
    for _ in range(rounds):
        for name, measure in ways.items():
            report.rounds[name].append(measure())
    return report


def write(name: str, report: Report, keep: bool) -> str:
    """Keep the figures, and give the table."""
    if keep:
        RESULTS.mkdir(exist_ok=True)
        found = {
            **asdict(report),
            "medians": report.medians(),
            "ratios": report.ratios(),
            "machine": machine(),
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n")
        (RESULTS / f"{name}.md").write_text(report.table() + "\n")
    return report.table()


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
