"""The first start, in a real chromium on an installation that nobody has used yet."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.conftest import UpProcess
from tests.web.conftest import watched

pytestmark = pytest.mark.browser

DRAWN_MS = 60_000
"""The images of the demo are drawn by one process, on machines that have other things to do."""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Iterator[UpProcess]:
    """An empty home."""
    with UpProcess(tmp_path_factory.mktemp("fresh"), [images], cpu_workers="2") as running:
        yield running


@pytest.fixture
def page(browser: Browser, fresh: UpProcess) -> Iterator[Page]:
    """A page on which any script error, and any request to another host, fails the test."""
    found = browser.new_page(base_url=fresh.url)
    problems = watched(found, fresh.url)
    yield found
    found.close()
    assert problems == []


def offer(page: Page) -> Locator:
    """The button, once the page knows how the demo stands."""
    page.goto("/")
    expect(page.locator("#first-start")).to_have_attribute("hx-trigger", "ddlp:sent")
    return page.get_by_role("button", name="Demo dataset and first run")


def test_a_start_that_fails_says_why_and_is_offered_again(page: Page, fresh: UpProcess) -> None:
    in_the_way = fresh.home / "demo-images"
    in_the_way.write_text("a file where a folder should be")
    offer(page).click()
    problem = page.locator("#first-start").get_by_role("alert")
    expect(problem).to_contain_text("The demo did not work")
    expect(problem).to_contain_text("demo-images cannot be made: File exists")
    in_the_way.unlink()
    expect(offer(page)).to_be_enabled()
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()


def test_one_click_leads_to_a_run_whose_fronts_both_move(page: Page, fresh: UpProcess) -> None:
    offer(page).click()
    expect(page.locator("#demo-words")).to_contain_text(re.compile("Drawing 2,400 images"))
    expect(page.get_by_role("progressbar", name="How far the demo is")).to_be_visible()
    expect(page).to_have_url("/runs/demo", timeout=DRAWN_MS)
    for prong in ("cpu", "csd"):
        moved = page.locator(f"#{prong}-delivered")
        expect(moved).to_have_text(re.compile(r"[1-9]"), timeout=30_000)
    with fresh.client() as client:
        # It learns for a minute; what was to be seen has been seen.
        client.post("/runs/demo/cancel")
    expect(page.locator("#state")).to_have_text("cancelled", timeout=15_000)
    page.goto("/")
    expect(page.locator("#first-start")).to_have_count(0)
    expect(page.locator(".runs tbody tr")).to_have_count(1)
    expect(page.locator(".runs tbody tr")).to_contain_text("shapes · wrr")
    page.goto("/datasets/shapes")
    expect(page.locator("#state")).to_have_text("ready")
    expect(page.locator("main")).to_contain_text("2,400")
