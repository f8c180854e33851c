"""The page of events, in a real chromium on the real stack: who did what, page by page."""

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Locator, Page, expect

from ddlp.core.client import Client
from tests.conftest import UpProcess
from tests.end_to_end.trainer import new_run

pytestmark = pytest.mark.browser

SHOWN = 50
"""Events on one page."""
TIMES = SHOWN // 2 + 1


@dataclass(frozen=True)
class Busy:
    """A run that was paused and resumed more often than a page can tell, and by which key."""

    run: str
    key: str


@pytest.fixture(scope="module")
def busy(up: UpProcess) -> Iterator[Busy]:
    with up.client() as client:
        run = new_run(client, batch_size=123, strategy="cpu")
        made = client.post("/keys", {"name": f"k-{uuid.uuid4().hex[:8]}", "scope": "admin"})
        with up.client(made["key"]) as named:
            for _ in range(TIMES):
                named.post(f"/runs/{run}/pause")
                named.post(f"/runs/{run}/resume")
        client.post(f"/runs/{run}/cancel")
        yield Busy(run, made["name"])


def rows(page: Page) -> Locator:
    return page.locator("#events tbody tr")


def test_who_did_it_is_named(page: Page, busy: Busy) -> None:
    page.goto(f"/audit?subject={busy.run}")
    newest, before = rows(page).nth(0), rows(page).nth(1)
    expect(newest.locator("td").nth(1)).to_have_text("local")
    expect(newest).to_contain_text("cancelled")
    expect(before.locator("td").nth(1)).to_have_text(busy.key)
    expect(before).to_contain_text("resumed (was paused)")
    newest.get_by_role("link", name=busy.run).click()
    expect(page).to_have_url(f"/runs/{busy.run}")


def test_subject_and_action_narrow_events_down_together(page: Page, busy: Busy) -> None:
    page.goto("/audit")
    page.get_by_label("subject").fill(busy.run)
    expect(rows(page).filter(has_text=busy.run)).to_have_count(SHOWN)
    expect(rows(page)).to_have_count(SHOWN)
    page.get_by_label("action").fill("run.paused")
    expect(rows(page)).to_have_count(TIMES)
    expect(rows(page).filter(has_not_text="run.paused")).to_have_count(0)
    expect(page).to_have_url(f"/audit?subject={busy.run}&action=run.paused")
    page.get_by_label("action").fill("dataset")
    expect(page.get_by_role("heading", name="Nothing was found")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    expect(page).to_have_url("/audit")
    expect(page.get_by_label("subject")).to_have_value("")


def test_older_events_are_a_page_further_with_the_same_filter(page: Page, busy: Busy) -> None:
    page.goto(f"/audit?subject={busy.run}&action=run")
    expect(rows(page)).to_have_count(SHOWN)
    expect(page.get_by_role("link", name="Newest")).to_have_count(0)
    page.get_by_role("link", name="Older").click()
    expect(page).to_have_url(re.compile(f"subject={busy.run}&action=run&before="))
    # All in all: made, paused and resumed so often, cancelled.
    expect(rows(page)).to_have_count(2 * TIMES + 2 - SHOWN)
    expect(rows(page).last).to_contain_text("made from dataset fruit")
    expect(rows(page).filter(has_not_text=busy.run)).to_have_count(0)
    expect(page.get_by_role("link", name="Older")).to_have_count(0)
    expect(page.get_by_label("action")).to_have_value("run")
    page.get_by_role("link", name="Newest").click()
    expect(rows(page).first).to_contain_text("cancelled")


def test_a_filter_begins_at_the_newest_and_its_pages_keep_it(
    page: Page, api: Client, busy: Busy
) -> None:
    oldest = min(event["id"] for event in api.get(f"/audit?subject={busy.run}&limit=200"))
    page.goto(f"/audit?before={oldest}")
    expect(page.get_by_role("link", name="Newest")).to_be_visible()
    page.get_by_label("subject").fill(busy.run)
    expect(rows(page).filter(has_text=busy.run)).to_have_count(SHOWN)
    expect(page.get_by_role("link", name="Newest")).to_have_count(0)
    page.get_by_role("link", name="Older").click()
    expect(rows(page).last).to_contain_text("made from dataset fruit")
    expect(page.get_by_label("subject")).to_have_value(busy.run)
