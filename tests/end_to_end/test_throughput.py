"""The throughput that is told is the one that training code counts itself."""

import time
from typing import Any

import pytest

from ddlp.core.client import Client
from ddlp.loader import DualLoader
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.trainer import new_run

FACTOR = 1.6
"""Within this the two are the same: the product knows only when it was asked."""


def counted(up: UpProcess, run: str, step_s: float) -> tuple[int, float]:
    """Train a run to its end: images that came, and seconds in passes."""
    images, passes_s = 0, 0.0
    with DualLoader(run=run, url=up.url, prefetch=2, device="cpu") as loader:
        while loader.epoch < (loader.epochs or 0):
            began = time.monotonic()
            for _, labels in loader:
                images += len(labels)
                time.sleep(step_s)
            passes_s += time.monotonic() - began
            time.sleep(0.3)  # validation, say
    return images, passes_s


def over(api: Client, run: str) -> dict[str, Any]:
    """A run once it is over."""
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    found: dict[str, Any] = api.get(f"/runs/{run}")
    return found


def wait_for_made(api: Client, run: str, images: int) -> None:
    """Wait until so much lies ready; nobody trains."""
    wait_until(lambda: sum(api.get(f"/runs/{run}")["images"].values()) >= images, timeout_s=60)


def test_the_figure_is_what_the_trainer_counts(up: UpProcess, api: Client) -> None:
    run = new_run(api, strategy="cpu", epochs=5)
    wait_for_made(api, run, 123)
    images, passes_s = counted(up, run, step_s=0.05)
    info = over(api, run)
    assert "GPUDirect" not in info["stall"]["sentence"]
    assert info["delivered"] == images
    assert 0 < info["measured_s"] <= 1.1 * passes_s
    rate = info["delivered_images_per_s"]
    assert images / passes_s / FACTOR < rate < images / passes_s * FACTOR
    report = api.get(f"/runs/{run}/report")["whole"]
    assert (report["images_per_s"], report["measured_s"]) == (rate, info["measured_s"])
    seconds = api.get(f"/runs/{run}/export?what=series&format=json")
    trainer = [row for row in seconds if row["source"] == "trainer"]
    assert {row["period_s"] for row in trainer} == {1}
    exported = sum(row["measured_images"] for row in trainer)
    assert exported / sum(row["measured_s"] for row in trainer) == pytest.approx(rate)


def test_what_lay_ready_is_not_taken_for_throughput(up: UpProcess, api: Client) -> None:
    run = new_run(api, strategy="cpu")
    wait_for_made(api, run, 123)
    images, passes_s = counted(up, run, step_s=0.0)
    info = over(api, run)
    assert info["delivered"] == images == 123
    assert info["delivered_images_per_s"] is None, f"it took {passes_s} s"
