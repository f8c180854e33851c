"""What do pages that people leave open cost the server?

    python -m benchmarks live_pages

Four runs are trained at a fixed pace. In turns no page is open, two hundred are on one of the
runs, and two hundred are spread over all four. The CPU seconds of the server process are taken over
the same stretch of time; what the pages add is the difference to the stretch without them.
"""

import re
import statistics
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from benchmarks import server_process, small_pictures
from benchmarks.bench_stack import BenchStack, bench_stack
from benchmarks.live_client import Counted, LivePages
from benchmarks.paced_trainer import paced
from benchmarks.report import Report, interleave

_NONE = "no page"
_GONE_S = 20


@dataclass(frozen=True)
class Scale:
    """How many pages, for how long, how often."""

    pages: int = 200
    runs: int = 4
    stretch_s: float = 20.0
    rounds: int = 5
    batch_s: float = 0.25
    """A trainer takes a batch of each run every so often."""


def measure(quick: bool) -> Report:
    """Percent of a core that the server uses."""
    return measure_at(Scale(pages=8, runs=2, stretch_s=3.0, rounds=1) if quick else Scale())


def measure_at(scale: Scale) -> Report:
    """Without pages, on one run, and spread, in turn."""
    report = Report(
        question=f"What do {scale.pages} open pages cost the server?",
        data=f"{scale.runs} runs, each trained at {1 / scale.batch_s:.0f} batches/s; loopback",
        unit="% of a core",
        baseline=_NONE,
        notes=[f"stretches of {scale.stretch_s:g} s; no stream was open after any of them"],
    )
    with tempfile.TemporaryDirectory() as scratch:
        images, about = small_pictures.arrange(Path(scratch), 4_096)
        report.data = f"{about}; {report.data}"
        home = Path(scratch) / "home"
        with bench_stack(home, images, cpu_workers=1, csd_devices=1) as stack:
            runs = [_long_run(stack) for _ in range(scale.runs)]
            ways = {
                _NONE: _Way(stack, [], scale),
                f"{scale.pages} on one run": _Way(stack, runs[:1], scale),
                f"{scale.pages} over {scale.runs} runs": _Way(stack, runs, scale),
            }
            with paced(stack.stack.url, runs, scale.batch_s):
                interleave(report, {n: way.stretch for n, way in ways.items()}, scale.rounds)
            for run in runs:
                stack.client.post(f"/runs/{run}/cancel")
    _beside(report, ways)
    return report


def _long_run(stack: BenchStack) -> str:
    """One that lives longer than anybody measures: 512 batches an epoch."""
    return stack.make_run(batch_size=8, epochs=1_000, strategy="wrr", pipeline="cifar-train")


def _beside(report: Report, ways: dict[str, "_Way"]) -> None:
    base = report.rounds[_NONE]
    report.beside["added, % of a core"] = {
        name: [one - other for one, other in zip(report.rounds[name], base, strict=True)]
        for name in ways
    }
    for what in ("messages/s a page", "kB/s a page"):
        report.beside[what] = {n: way.beside[what] for n, way in ways.items() if way.runs}
    worst = max(
        statistics.median(figures) for figures in report.beside["added, % of a core"].values()
    )
    report.notes.append(f"the pages add {worst:.1f} % of a core at most, by the medians")


@dataclass
class _Way:
    """Pages on some runs."""

    stack: BenchStack
    runs: list[str]
    scale: Scale
    beside: dict[str, list[float]] = field(
        default_factory=lambda: {"messages/s a page": [], "kB/s a page": []}
    )

    def stretch(self) -> float:
        """Percent of a core that the server uses while the pages are open."""
        server, stretch_s = self.stack.stack.server_pid(), self.scale.stretch_s
        urls = self._urls()
        pages = LivePages(urls, at_most_s=10 * stretch_s + 60) if urls else None
        with pages or nullcontext():
            before_s, began_s = server_process.cpu_s(server), time.monotonic()
            time.sleep(stretch_s)
            used_s, wall_s = server_process.cpu_s(server) - before_s, time.monotonic() - began_s
            assert self._open() == len(urls)
        if pages is not None:
            self._note(pages.counted, wall_s)
        self._wait_until_gone()
        return 100 * used_s / wall_s

    def _urls(self) -> list[str]:
        if not self.runs:
            return []
        each = [f"{self.stack.stack.url}/runs/{run}/live" for run in self.runs]
        return [each[number % len(each)] for number in range(self.scale.pages)]

    def _note(self, counted: Counted, wall_s: float) -> None:
        assert counted.ended == 0, f"the server ended {counted.ended} streams"
        pages = self.scale.pages
        self.beside["messages/s a page"].append(counted.messages / pages / wall_s)
        self.beside["kB/s a page"].append(counted.bytes / pages / wall_s / 1000)

    def _wait_until_gone(self) -> None:
        deadline = time.monotonic() + _GONE_S
        while self._open():
            assert time.monotonic() < deadline, f"{self._open()} streams stay open on the server"
            time.sleep(0.2)

    def _open(self) -> int:
        """How many streams the server counts."""
        with urlopen(f"{self.stack.stack.url}/metrics") as answer:
            text = answer.read().decode()
        [found] = re.findall(r"^ddlp_live_streams (\d+)", text, re.MULTILINE)
        return int(found)
