"""Does a page that stays open keep more and more memory, in the browser or in the server?

    python -m benchmarks open_page_memory

The live page of a run that is trained at a fixed pace stays open in chromium. Every minute the
browser's garbage is collected and what is left is counted; the first minute is not looked at.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from playwright.sync_api import CDPSession, Page

from benchmarks import server_process, small_pictures
from benchmarks.bench_stack import BenchStack, bench_stack
from benchmarks.chromium import chromium
from benchmarks.paced_trainer import paced
from benchmarks.report import Report, Reports, shown

_FIRST, _LAST = "after a minute", "at the end"
_FIGURES = {
    "JavaScript heap": "MB",
    "DOM nodes": "nodes",
    "event listeners": "listeners",
    "server's memory": "MB",
}


@dataclass(frozen=True)
class Scale:
    """How long the page is open; the first minute only warms it up."""

    minutes: int = 10
    minute_s: float = 60.0
    batch_s: float = 0.25


def measure(quick: bool) -> Reports:
    """What is held after the first minute, and at the end."""
    return measure_at(Scale(minutes=2, minute_s=3.0) if quick else Scale())


def measure_at(scale: Scale) -> Reports:
    """One page, looked at every minute."""
    if scale.minutes < 2:
        raise ValueError(f"{scale.minutes} minutes leave nothing to compare: take 2 or more")
    with tempfile.TemporaryDirectory() as scratch:
        images, _ = small_pictures.arrange(Path(scratch), 4_096)
        home = Path(scratch) / "home"
        with bench_stack(home, images, cpu_workers=1, csd_devices=1) as stack:
            run = stack.make_run(batch_size=8, epochs=1_000, strategy="wrr", pipeline="cifar-train")
            with paced(stack.stack.url, [run], scale.batch_s):
                looks = list(_looks(stack, run, scale))
            stack.client.post(f"/runs/{run}/cancel")
    return Reports([_part(what, [look[what] for look in looks], scale) for what in _FIGURES])


def _looks(stack: BenchStack, run: str, scale: Scale) -> Iterator[dict[str, float]]:
    server = stack.stack.server_pid()
    with (
        chromium() as browser,
        browser.new_context(viewport={"width": 1280, "height": 900}) as context,
    ):
        page = context.new_page()
        page.goto(f"{stack.stack.url}/runs/{run}")
        page.locator("#chart canvas").wait_for()
        wire = context.new_cdp_session(page)
        wire.send("Performance.enable")
        wire.send("HeapProfiler.enable")
        for _ in range(scale.minutes):
            _wait(page, scale.minute_s)
            held = server_process.resident_bytes(server)
            yield _counts(wire) | {"server's memory": held / 1e6}
        assert page.locator("#state").inner_text() == "running"
        assert page.locator("#offline").is_hidden()


def _wait(page: Page, seconds: float) -> None:
    """Stay on the page; it has changed meanwhile."""
    before, until = page.locator("#both").inner_html(), time.monotonic() + seconds
    while (left_s := until - time.monotonic()) > 0:
        page.wait_for_timeout(1000 * min(left_s, 5))
    assert page.locator("#both").inner_html() != before, "the page stands still"


def _counts(wire: CDPSession) -> dict[str, float]:
    """What is left in the browser when its garbage is collected."""
    wire.send("HeapProfiler.collectGarbage")
    answer = wire.send("Performance.getMetrics")
    metrics = {entry["name"]: entry["value"] for entry in answer["metrics"]}
    return {
        "JavaScript heap": metrics["JSHeapUsedSize"] / 1e6,
        "DOM nodes": metrics["Nodes"],
        "event listeners": metrics["JSEventListeners"],
    }


def _part(what: str, found: list[float], scale: Scale) -> Report:
    unit = _FIGURES[what]
    slope = float(np.polyfit(range(len(found)), found, 1)[0])
    return Report(
        question=f"A live page open for {scale.minutes} minutes: {what}",
        data=f"one run, trained at {1 / scale.batch_s:.0f} batches/s; chromium, loopback",
        unit=unit,
        baseline=_FIRST,
        rounds={_FIRST: found[:1], _LAST: found[-1:]},
        notes=[
            f"every minute: {', '.join(shown(value) for value in found)}",
            f"slope: {slope:+.3g} {unit} a minute",
        ],
    )
