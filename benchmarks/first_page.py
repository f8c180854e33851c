"""How soon does a page stand in the browser, and how much has to come for it?

    python -m benchmarks first_page

Two stacks, one with a few runs in its database and one with a thousand. Their list of runs and the
page of a run that is over are loaded in turns, in chromium on this machine, each time by a browser
that has seen nothing of it before.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser

from benchmarks import small_pictures
from benchmarks.bench_stack import BenchStack, bench_stack
from benchmarks.chromium import chromium
from benchmarks.many_runs import multiply
from benchmarks.report import Report, interleave

_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]"


@dataclass(frozen=True)
class Scale:
    """How many runs the databases hold, and how long each worked."""

    few: int = 10
    many: int = 1_000
    seconds: int = 600
    rounds: int = 15


def measure(quick: bool) -> Report:
    """Milliseconds until the first content is painted."""
    return measure_at(Scale(2, 20, 60, 1) if quick else Scale())


def measure_at(scale: Scale) -> Report:
    """All pages in turn."""
    report = Report(
        question="How soon does a page stand in the browser?",
        data=f"databases of {scale.few:,} and of {scale.many:,} runs; SQLite, chromium, loopback",
        unit="ms to the first content",
        baseline=f"list of runs, {scale.few:,} runs",
        notes=["nothing cached; bytes are those of all answers, with their heads"],
    )
    with tempfile.TemporaryDirectory() as scratch:
        images, _ = small_pictures.arrange(Path(scratch), 512)
        shared = {"cpu_workers": 1, "csd_devices": 1}
        with (
            bench_stack(Path(scratch) / "few", images, **shared) as few,
            bench_stack(Path(scratch) / "many", images, **shared) as many,
            chromium() as browser,
        ):
            sides = {scale.few: few, scale.many: many}
            pages = _pages(browser, sides, scale)
            ways: dict[str, Callable[[], float]] = {n: page.load for n, page in pages.items()}
            for load in ways.values():
                load()
            for page in pages.values():
                page.forget()
            interleave(report, ways, scale.rounds)
    for what in ("kB", "requests", "ms until loaded"):
        report.beside[what] = {name: page.beside[what] for name, page in pages.items()}
    return report


def _pages(browser: Browser, sides: dict[int, BenchStack], scale: Scale) -> dict[str, "_Page"]:
    found = {}
    for runs, stack in sides.items():
        name = stack.make_run(batch_size=8, epochs=2, strategy="wrr", pipeline="cifar-train")
        stack.take(name)
        multiply(stack, name, runs, scale.seconds)
        found[f"list of runs, {runs:,} runs"] = _Page(browser, f"{stack.stack.url}/")
        found[f"page of a run, {runs:,} runs"] = _Page(browser, f"{stack.stack.url}/runs/{name}")
    return dict(sorted(found.items()))


@dataclass
class _Page:
    browser: Browser
    url: str
    beside: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.beside = {"kB": [], "requests": [], "ms until loaded": []}

    def load(self) -> float:
        """Visit it for the first time; milliseconds until something stands there."""
        received: list[float] = []
        with self.browser.new_context(viewport={"width": 1280, "height": 900}) as context:
            page = context.new_page()
            wire = context.new_cdp_session(page)
            wire.send("Network.enable")
            wire.on(
                "Network.loadingFinished", lambda end: received.append(end["encodedDataLength"])
            )
            answer = page.goto(self.url, wait_until="networkidle")
            assert answer is not None
            assert answer.ok, f"{self.url} answers {answer.status}"
            page.wait_for_function(f"() => {_PAINT} !== undefined")
            painted_ms = float(page.evaluate(f"{_PAINT}.startTime"))
            loaded_ms = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        self.beside["kB"].append(sum(received) / 1000)
        self.beside["requests"].append(len(received))
        self.beside["ms until loaded"].append(float(loaded_ms))
        return painted_ms
