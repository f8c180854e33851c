"""Takes the pictures of the pages that README and docs show: `make screenshots`.

Starts a stack of its own in a temporary folder, has the demo made on it with one click, as a
newcomer does, trains a second run by another strategy, and visits every page with chromium.
"""

import io
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect

from benchmarks.chromium import chromium
from ddlp.cli.up import Stack
from ddlp.core.client import Client
from ddlp.core.settings import Settings

PLACE = Path(__file__).parent.parent / "docs" / "screenshots"
COLOURS = 255
TIMEOUT_S = 240.0


def main() -> None:
    """Take them all."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        Stack(Settings(home=Path(scratch), port=0, csd_devices=1)) as stack,
        Client(stack.url) as client,
        chromium() as browser,
    ):
        take_first_run(browser, client, stack.url)
        take_the_rest(browser, client, stack.url)


def take_first_run(browser: Browser, client: Client, url: str) -> None:
    """The first start, and its run in the middle, light and dark, on a desk and in a pocket."""
    page = visit(browser, url, 1280)
    narrow = visit(browser, url, 380)
    page.goto("/")
    expect(page.get_by_role("button", name="Demo dataset and first run")).to_be_visible()
    keep(page, "first-start", height=480)
    page.get_by_role("button", name="Demo dataset and first run").click()
    page.wait_for_url("**/runs/demo", timeout=1000 * TIMEOUT_S)
    wait_for_epoch(client, "demo", 2)
    narrow.goto("/runs/demo")
    page.wait_for_timeout(2000)
    keep(page, "run", height=1420)
    page.emulate_media(color_scheme="dark")
    keep(page, "run-dark", height=1420)
    keep(narrow, "run-narrow", height=1100)
    wait_for_end(client, "demo")
    page.close()
    narrow.close()


def take_the_rest(browser: Browser, client: Client, url: str) -> None:
    """Pages that show what is over."""
    fields = {"dataset": "shapes", "pipeline": "demo-64", "batch_size": 24, "epochs": 4, "seed": 7}
    client.post("/runs", {"name": "demo-mte", "strategy": "mte", **fields})
    trainer = [sys.executable, "-m", "ddlp.loader.demo_trainer", "--url", url, "--run", "demo-mte"]
    subprocess.run(trainer, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
    wait_for_end(client, "demo-mte")
    page = visit(browser, url, 1280)
    for name, address, height in (
        ("runs", "/", 560),
        ("compare", "/runs/compare?run=demo&run=demo-mte", 1150),
        ("new-run", "/runs/new?dataset=shapes&pipeline=demo-64", 1500),
        ("dataset", "/datasets/shapes", 1150),
        ("devices", "/devices", 560),
    ):
        page.goto(address)
        page.wait_for_load_state("networkidle")
        keep(page, name, height)


def visit(browser: Browser, url: str, width: int) -> Page:
    """A window on which nothing is caught in the middle of a movement."""
    return browser.new_page(
        base_url=url, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )


def keep(page: Page, name: str, height: int) -> None:
    """Save the top of a page with few colours: pages have few, and pictures are small then."""
    assert page.viewport_size is not None
    page.set_viewport_size({"width": page.viewport_size["width"], "height": height})
    page.wait_for_timeout(1000)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
    picture.save(PLACE / f"{name}.png", optimize=True)
    print(f"docs/screenshots/{name}.png")  # noqa: T201


def wait_for_epoch(client: Client, run: str, epoch: int) -> None:
    """Until a run is in the middle of an epoch."""
    half = epoch * client.get(f"/runs/{run}")["samples"] * 0.75
    wait_until(lambda: sum(client.get(f"/runs/{run}")["images"].values()) > half)


def wait_for_end(client: Client, run: str) -> None:
    """Until a run is completed."""
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")


def wait_until(happened: object) -> None:
    """Until something has happened in another process."""
    assert callable(happened)
    deadline = time.monotonic() + TIMEOUT_S
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not happen within {TIMEOUT_S:.0f} s")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
