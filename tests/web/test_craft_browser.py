"""What every page has: keys and their sheet, both themes, local times, a word when cut off."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from ddlp.core.client import Client
from tests.conftest import UpProcess
from tests.end_to_end.trainer import new_run, train

pytestmark = pytest.mark.browser


def test_keys_lead_everywhere_and_are_listed(page: Page, up: UpProcess) -> None:
    page.goto("/")
    for key, path in (("d", "/datasets"), ("v", "/devices"), ("a", "/audit"), ("k", "/keys")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"**{path}")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    expect(page.locator("#shortcuts tr")).not_to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("n")
    page.wait_for_url("**/runs/new")


def test_keys_do_nothing_while_one_types(page: Page, up: UpProcess) -> None:
    page.goto("/")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("nt?")
    expect(page.locator("#search")).to_have_value("nt?")
    expect(page.locator("#help")).to_be_hidden()


def test_a_run_is_paused_by_a_key(page: Page, up: UpProcess, api: Client) -> None:
    run = new_run(api)
    page.goto(f"/runs/{run}")
    page.keyboard.press("p")
    expect(page.locator("#state")).to_have_text("paused")
    page.keyboard.press("p")
    expect(page.locator("#state")).to_have_text("running")
    api.post(f"/runs/{run}/cancel")


def test_the_theme_is_the_systems_until_the_reader_chooses_one(page: Page, up: UpProcess) -> None:
    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    page.emulate_media(color_scheme="light")
    page.goto("/")
    light = ground()
    page.emulate_media(color_scheme="dark")
    dark = ground()
    assert light != dark
    page.get_by_role("button", name="Light or dark").click()
    assert ground() == light
    page.goto("/datasets")
    assert ground() == light


def test_times_are_the_readers_own_and_exact_on_hover(
    browser: Browser, up: UpProcess, api: Client
) -> None:
    run = new_run(api)
    train(up, run)
    created = api.get(f"/runs/{run}")["created_at"]
    for zone, hours in (("Asia/Tokyo", 9), ("America/Bogota", -5)):
        context = browser.new_context(base_url=up.url, timezone_id=zone, locale="en-GB")
        page = context.new_page()
        page.goto(f"/runs/{run}")
        place = page.locator("#events time").last
        local = int(created / 3600 + hours) % 24
        expect(place).to_have_text(re.compile(rf"^{local:02}:\d\d:\d\d$"))
        expect(place).to_have_attribute("title", re.compile(r"\d{4}.* \d\d:\d\d:\d\d"))
        context.close()


def test_a_page_that_asks_again_says_when_nobody_answers(page: Page, up: UpProcess) -> None:
    page.goto("/devices")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.route("**/devices", lambda route: route.abort())
    expect(page.locator("#offline")).to_be_visible(timeout=10_000)
    page.unroute("**/devices")
    expect(page.locator("#offline")).to_be_hidden(timeout=10_000)


def test_static_files_are_kept_by_browsers_and_change_their_address(
    page: Page, up: UpProcess
) -> None:
    seen: dict[str, str] = {}
    page.on(
        "response",
        lambda answer: (
            seen.update({answer.url: answer.headers.get("cache-control", "")})
            if "/static/" in answer.url
            else None
        ),
    )
    page.goto("/")
    assert seen
    for url, kept in seen.items():
        assert "?v=" in url, url
        assert "immutable" in kept, url
