"""A real chromium, and pages that fail a test on what no page may do."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from benchmarks.chromium import CHROMIUM, chromium
from tests.conftest import UpProcess


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.fail(f"{CHROMIUM} is missing; run: make test, which installs it")
    with chromium() as found:
        yield found


def watched(page: Page, url: str) -> list[str]:
    """What a page does that none may do: script errors, and requests to other hosts."""
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda request: problems.append(request.url) if not request.url.startswith(url) else None,
    )
    return problems


@pytest.fixture
def page(browser: Browser, up: UpProcess) -> Iterator[Page]:
    """A page on which any script error, and any request to another host, fails the test."""
    found = browser.new_page(base_url=up.url)
    problems = watched(found, up.url)
    yield found
    found.close()
    assert problems == []
