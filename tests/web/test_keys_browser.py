"""Keys and signing in, in a real chromium: shown once, revoked for good, never led elsewhere."""

import re
import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from ddlp.core.client import Client
from ddlp.core.errors import KeyRefused
from tests.conftest import Locked, UpProcess
from tests.end_to_end.trainer import new_run
from tests.web.conftest import watched

pytestmark = pytest.mark.browser

SIGN_IN = re.compile("/signin")


def new_name() -> str:
    """A name that no key had: names are not used twice."""
    return f"k-{uuid.uuid4().hex[:8]}"


def row(page: Page, key: str) -> Locator:
    return page.locator("#keys tbody tr").filter(has_text=key)


def make_key(page: Page, name: str, scope: str) -> str:
    """Make a key on the page; the key itself."""
    page.get_by_label("name", exact=True).fill(name)
    page.get_by_label("scope", exact=True).select_option(scope)
    page.get_by_role("button", name="Make key").click()
    expect(page.locator("#made-name")).to_have_text(name)
    return page.locator("#made-key").inner_text()


def test_a_new_key_is_shown_once(page: Page, up: UpProcess) -> None:
    name = new_name()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/keys")
    expect(page.locator("#required")).to_contain_text("Keys are not asked for")
    expect(page.locator("#made")).to_be_hidden()
    key = make_key(page, name, "work")
    assert key.startswith("ddlp_")
    expect(page.locator("#made")).to_be_focused()
    expect(row(page, name)).to_contain_text("work")
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("#copied")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == key
    with up.client(key) as client:
        client.get("/runs")
    page.reload()
    expect(page.locator("#made")).to_be_hidden()
    expect(row(page, name).locator(".chip")).to_have_text("live")
    expect(row(page, name)).to_contain_text("work")
    assert key not in page.content()


def test_a_name_is_not_used_twice(page: Page, api: Client) -> None:
    name = new_name()
    api.post("/keys", {"name": name, "scope": "read"})
    page.goto("/keys")
    page.get_by_label("name", exact=True).fill(name)
    page.get_by_role("button", name="Make key").click()
    expect(page.locator("#new-key .problem")).to_contain_text("names are not used twice")
    expect(page.locator("#made")).to_be_hidden()


def test_a_key_is_revoked_if_that_is_meant(page: Page, up: UpProcess, api: Client) -> None:
    name = new_name()
    key = api.post("/keys", {"name": name, "scope": "read"})["key"]
    page.goto("/keys")
    revoke = page.get_by_role("button", name=f"Revoke {name}")
    revoke.click()
    expect(page.locator("#confirm-words")).to_contain_text(f"Revoke {name}?")
    page.get_by_role("button", name="Keep it").click()
    with up.client(key) as client:
        client.get("/runs")
    revoke.click()
    page.get_by_role("button", name="Revoke key").click()
    expect(row(page, name).locator(".chip")).to_have_text("revoked")
    expect(revoke).to_have_count(0)
    with up.client(key) as client, pytest.raises(KeyRefused, match="was revoked"):
        client.get("/runs")


@pytest.fixture
def visitor(browser: Browser, locked: Locked) -> Iterator[Page]:
    """A browser that has shown no key yet; what no page may do fails the test."""
    found = browser.new_page(base_url=locked.up.url)
    problems = watched(found, locked.up.url)
    yield found
    found.close()
    assert problems == []


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_a_good_key_leads_on_to_what_was_wanted_until_one_signs_out(
    visitor: Page, locked: Locked
) -> None:
    visitor.goto("/devices?a=1&b=2")
    expect(visitor).to_have_url(re.compile("/signin\\?next=/devices"))
    sign_in(visitor, f"{locked.read}x")
    expect(visitor.locator(".problem")).to_contain_text("not known or was revoked")
    expect(visitor).to_have_url(SIGN_IN)
    sign_in(visitor, locked.read)
    expect(visitor).to_have_url("/devices?a=1&b=2")
    expect(visitor.get_by_role("heading", level=1)).to_have_text("Devices")
    expect(visitor.locator(".who")).to_have_text("a-read")
    assert visitor.evaluate("document.cookie") == ""
    visitor.get_by_role("button", name="Sign out").click()
    expect(visitor).to_have_url("/signin")
    visitor.goto("/")
    expect(visitor).to_have_url(SIGN_IN)


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_nobody_is_led_to_another_server(visitor: Page, locked: Locked, wanted: str) -> None:
    visitor.goto(f"/signin?next={wanted}")
    sign_in(visitor, locked.read)
    expect(visitor).to_have_url(f"{locked.up.url}/")


def test_a_key_that_is_not_enough_says_which_one_is(visitor: Page, locked: Locked) -> None:
    visitor.goto("/signin")
    sign_in(visitor, locked.read)
    expect(visitor).to_have_url("/")
    visitor.goto("/keys")
    expect(visitor).to_have_url("/signin?next=/keys")
    expect(visitor.locator("#refused")).to_contain_text("/keys needs a key of scope admin")
    sign_in(visitor, locked.admin)
    expect(visitor).to_have_url("/keys")
    expect(visitor.locator("#required")).to_contain_text("This server asks for a key")
    expect(row(visitor, "boss")).to_contain_text("the key in use here")


def test_who_may_only_read_cannot_cancel_and_is_told_why(visitor: Page, locked: Locked) -> None:
    with locked.up.client(locked.admin) as client:
        run = new_run(client)
        visitor.goto(f"/runs/{run}")
        sign_in(visitor, locked.read)
        expect(visitor).to_have_url(f"/runs/{run}")
        visitor.get_by_role("button", name="Cancel", exact=True).click()
        visitor.locator("#confirm-yes").click()
        refusal = "key a-read has scope read, and this needs admin"
        expect(visitor.locator("#notices")).to_contain_text(refusal)
        visitor.goto("/")
        visitor.get_by_label(f"choose {run}").check()
        visitor.get_by_role("button", name="Cancel selected").click()
        visitor.locator("#confirm-yes").click()
        expect(visitor.locator("#notices")).to_contain_text(refusal)
        assert client.get(f"/runs/{run}")["ended_at"] is None
        client.post(f"/runs/{run}/cancel")


def test_a_page_that_follows_something_says_when_its_key_was_revoked(
    visitor: Page, locked: Locked
) -> None:
    name = new_name()
    with locked.up.client(locked.admin) as client:
        key = client.post("/keys", {"name": name, "scope": "read"})["key"]
        visitor.goto("/devices")
        sign_in(visitor, key)
        expect(visitor.get_by_role("heading", level=1)).to_have_text("Devices")
        expect(visitor.locator("#signed-out")).to_be_hidden()
        client.post(f"/keys/{name}/revoke")
    expect(visitor.locator("#signed-out")).to_be_visible(timeout=10_000)
    visitor.get_by_role("link", name="Load it again").click()
    expect(visitor).to_have_url("/signin?next=/devices")


def test_a_live_run_is_shown_no_longer_than_the_key_is_good(visitor: Page, locked: Locked) -> None:
    name = new_name()
    with locked.up.client(locked.admin) as client:
        run = new_run(client)
        key = client.post("/keys", {"name": name, "scope": "read"})["key"]
        visitor.goto(f"/runs/{run}")
        sign_in(visitor, key)
        expect(visitor.locator("#state")).to_be_visible()
        client.post(f"/keys/{name}/revoke")
        expect(visitor.locator("#signed-out")).to_be_visible(timeout=20_000)
        expect(visitor.locator("#offline")).to_be_hidden()
        client.post(f"/runs/{run}/pause")
        visitor.wait_for_timeout(2500)
        expect(visitor.locator("#state")).not_to_have_text("paused")
        client.post(f"/runs/{run}/cancel")
