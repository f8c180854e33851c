"""The pages of devices and of events, in a real chromium on the real stack."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from ddlp.core.client import Client
from tests.conftest import UpProcess
from tests.end_to_end.trainer import new_run, train

pytestmark = pytest.mark.browser


@pytest.fixture
def drive(api: Client) -> Iterator[str]:
    """The name of the emulated drive, which takes work again after the test."""
    devices = api.get("/devices")
    [found] = [d["name"] for d in devices if d["prong"] == "csd" and d["live"]]
    yield found
    api.post(f"/devices/{found}/resume")


def device(api: Client, name: str) -> dict[str, object]:
    [found] = [device for device in api.get("/devices") if device["name"] == name]
    return dict(found)


def test_devices_are_listed_with_what_is_known_of_them(page: Page, drive: str) -> None:
    page.goto("/devices")
    row = page.get_by_role("row").filter(has_text=drive)
    expect(row.locator(".mark").first).to_have_text("emulated")
    expect(row.locator(".chip")).to_have_text("live")
    expect(row.locator("meter")).to_be_visible()
    expect(page.get_by_role("heading", name="Meters")).to_be_visible()
    page.set_viewport_size({"width": 380, "height": 800})
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 380


def test_a_drained_drive_rests_while_the_run_goes_on_and_works_again_once_resumed(
    page: Page, up: UpProcess, api: Client, drive: str
) -> None:
    run = new_run(api, batch_size=2, epochs=2, strategy="wrr")
    page.goto("/devices")
    row = page.get_by_role("row").filter(has_text=drive)

    def act(step: int) -> None:
        if step == 3:
            page.get_by_role("button", name=f"Drain {drive}").click()
            expect(page.locator("#confirm-words")).to_contain_text("finishes what it holds")
            page.locator("#confirm-yes").click()
            expect(row.locator(".chip")).to_have_text("drained")
        elif step == 20:
            made.append(device(api, drive)["images_made"])
        elif step == 30:
            made.append(device(api, drive)["images_made"])
            page.get_by_role("button", name=f"Resume {drive}").click()
            expect(row.locator(".chip")).to_have_text("live")

    made: list[object] = []
    done = False

    def only_once(step: int) -> None:
        nonlocal done
        if not done:
            act(step)
            done = step == 30

    accounts = train(up, run, only_once)
    assert [account.samples for account in accounts] == 2 * [Counter(range(123))]
    assert made[0] == made[1]
    assert api.get(f"/runs/{run}")["held_up"] is None
    train(up, new_run(api, strategy="csd", batch_size=20))
    assert device(api, drive)["images_made"] > made[1]  # type: ignore[operator]


def test_events_are_filtered_as_one_types_and_lead_to_their_subject(
    page: Page, api: Client, drive: str
) -> None:
    api.post(f"/devices/{drive}/drain")
    api.post(f"/devices/{drive}/resume")
    page.goto("/audit")
    rows = page.locator("#events tbody tr")
    expect(rows.first).to_contain_text("resumed: it is given work again")
    page.get_by_label("action").fill("device.drain")
    expect(rows.first).to_contain_text("drained: it is given no new work")
    expect(rows.filter(has_text="resumed")).to_have_count(0)
    page.get_by_label("subject").fill("nobody")
    expect(page.get_by_role("heading", name="Nothing was found")).to_be_visible()
    page.goto("/audit?action=device")
    expect(page.get_by_label("action")).to_have_value("device")
    page.get_by_role("link", name=drive).first.click()
    expect(page).to_have_url(re.compile(f"/devices#device-{drive}$"))
