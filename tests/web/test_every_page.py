"""Every page, as everybody gets it: any width, light and dark, by keyboard, without scripts.

Real chromium on the real stack. axe-core, which looks for what keeps people out, is fetched by
scripts/fetch-javascript and handed over by the debugger: pages themselves let nobody add scripts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from ddlp.core.client import Client
from ddlp.core.errors import DdlpError
from ddlp.loader import DualLoader
from tests.conftest import UpProcess, add_dataset, make_images
from tests.end_to_end.trainer import new_run, train
from tests.web.conftest import watched

pytestmark = pytest.mark.browser

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
WIDTHS = (380, 1280, 3840)
TAB_STOPS = 25
SHIFT = 0.01
"""Of the page's height and width moved: a tenth of what counts as good."""


@dataclass(frozen=True)
class Place:
    """A page: its address, and words that its main part has even without scripts."""

    address: str
    says: str
    status: int = 200


PLACES = {
    "runs": Place("/", "{over}"),
    "runs of a state": Place("/?state=completed", "{over}"),
    "runs of none": Place("/?search=nothing-is-called-so", "No run"),
    "live run": Place("/runs/{paused}", "paused"),
    "run that is over": Place("/runs/{over}", "completed"),
    "run that failed": Place("/runs/{failed}", "changed since its scan"),
    "comparison": Place("/runs/compare?run={over}&run={other}", "{other}"),
    "comparison of none": Place("/runs/compare", "Compare"),
    "new run": Place("/runs/new", "New run"),
    "new run like another": Place("/runs/new?clone={over}", "{dataset}"),
    "datasets": Place("/datasets", "{dataset}"),
    "dataset": Place("/datasets/{dataset}", "0002.jpg"),
    "devices": Place("/devices", "csd0"),
    "keys": Place("/keys", "Keys"),
    "audit": Place("/audit", "{over}"),
    "sign in": Place("/signin", "Sign in"),
    "error": Place("/runs/nothing", "there is no run nothing", 404),
}


@pytest.fixture(scope="module")
def names(up: UpProcess, scratch: Path) -> Iterator[dict[str, str]]:
    """What the pages show: two runs that are over, one in the middle, a dataset with bad files."""
    root = make_images(scratch / "every", 24)
    (root / "plum" / "0002.jpg").write_bytes(b"nothing")
    with up.client() as client:
        add_dataset(client, root, "every")
        (root / "apple" / "0000.jpg").write_bytes(b"changed after it was indexed")
        fields = {"dataset": "every", "batch_size": 2, "on_bad": "replace", "max_bad_share": 0.5}
        over, other = (new_run(client, strategy=which, **fields) for which in ("wrr", "mte"))
        train(up, over)
        train(up, other)
        fatal = {"dataset": "every", "batch_size": 2, "on_bad": "fail", "strategy": "cpu"}
        failed = new_run(client, **fatal)
        with pytest.raises(DdlpError, match="changed after it was indexed"):
            train(up, failed)
        paused = new_run(client, batch_size=4)
        with DualLoader(run=paused, url=up.url) as loader:
            batches = loader.batches()
            for _ in range(8):
                next(batches)
            client.post(f"/runs/{paused}/pause")
        yield {"over": over, "other": other, "failed": failed, "paused": paused} | {
            "dataset": "every"
        }
        client.post(f"/runs/{paused}/cancel")
        client.delete("/datasets/every?keep_runs=true")


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.exists():
        pytest.fail(f"{AXE} is missing; run: make setup, which fetches it")
    return AXE.read_text()


@pytest.mark.parametrize("name", PLACES)
def test_a_page_is_there_for_everybody(
    page: Page, names: dict[str, str], axe: str, name: str
) -> None:
    complaints: list[str] = []
    page.on(
        "console",
        lambda said: complaints.append(said.text) if _is_complaint(said, PLACES[name]) else None,
    )
    page.set_viewport_size({"width": 1280, "height": 900})
    answer = page.goto(PLACES[name].address.format(**names))
    assert answer is not None
    assert answer.status == PLACES[name].status
    _check_head(page)
    _check_focus(page)
    page.evaluate(axe)
    found = [
        f"{problem} ({width} pixels, {scheme})"
        for width in WIDTHS
        for scheme in ("light", "dark")
        for problem in _problems(page, width, scheme)
    ]
    assert found == []
    assert complaints == []


def _is_complaint(said: ConsoleMessage, place: Place) -> bool:
    """What a browser says of a page that is not right; that one is not there is its status."""
    return said.type in ("warning", "error") and f"status of {place.status}" not in said.text


def _check_head(page: Page) -> None:
    assert page.title().endswith(" · DDLP")
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("h1").count() == 1


def _check_focus(page: Page) -> None:
    """Wherever Tab leads to, one sees it."""
    seen = 0
    for _ in range(TAB_STOPS):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => {
                const at = document.activeElement, style = getComputedStyle(at);
                const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
                return at === document.body ? null : [ring, at.outerHTML.slice(0, 200)];
            }"""
        )
        if focused is None:
            break
        ring, html = focused
        assert ring, f"no ring around {html}"
        seen += 1
    assert seen > 5


def _problems(page: Page, width: int, scheme: Any) -> list[str]:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    found = [] if (wide := _overflow(page)) is None else [wide]
    results = page.evaluate(
        "async () => (await axe.run(document, { resultTypes: ['violations'] })).violations"
    )
    return found + [
        f"{violation['id']}: {node['html'][:200]} {node['failureSummary']}"
        for violation in results
        for node in violation["nodes"]
    ]


def test_what_is_said_of_files_and_energy_can_be_read_on_a_phone(
    page: Page, names: dict[str, str]
) -> None:
    """Nothing that counts lies off the screen, and no file name breaks letter by letter."""
    page.set_viewport_size({"width": 380, "height": 800})
    for address, cells in (
        ("/runs/{over}", "#energy td, #bad td:not(.picture), #tiles b"),
        ("/datasets/{dataset}", "#quarantine td:not(.picture), #rejected td"),
        ("/devices", "table[class='stacked'] td"),
    ):
        page.goto(address.format(**names))
        found = page.locator(cells).evaluate_all(
            """parts => parts.filter(part => part.textContent.trim()).map(part => {
                const { right, height } = part.getBoundingClientRect();
                return [part.textContent.trim().slice(0, 80), right, height, part.scrollWidth
                    - part.clientWidth];
            })"""
        )
        assert found, address
        assert [cell for cell in found if cell[1] > 380 or cell[2] > 140 or cell[3] > 1] == []


def test_a_broken_file_is_drawn_as_one_and_asked_for_without_an_error(
    page: Page, names: dict[str, str]
) -> None:
    missing: list[str] = []
    page.on("response", lambda answer: missing.append(answer.url) if answer.status > 399 else None)
    for address, place in (("/runs/{over}", "#bad"), ("/datasets/{dataset}", "#quarantine")):
        page.goto(address.format(**names))
        picture = page.locator(f"{place} td.picture img").first
        picture.scroll_into_view_if_needed()
        page.wait_for_function("image => image.complete", arg=picture.element_handle())
        assert picture.evaluate("image => image.naturalWidth") > 0
    assert missing == []


def _overflow(page: Page) -> str | None:
    """What makes the page wider than the window, if something does."""
    found: str | None = page.evaluate(
        """() => {
            const root = document.documentElement;
            if (root.scrollWidth <= root.clientWidth) return null;
            const inside = (part) => part.parentElement?.closest(".scroll, pre, svg");
            const wide = [...document.body.querySelectorAll("*")].filter((part) =>
                part.getBoundingClientRect().right > root.clientWidth && !inside(part));
            return `${root.scrollWidth} wide: ` + (wide.at(-1)?.outerHTML.slice(0, 200) ?? "?");
        }"""
    )
    return found


@pytest.fixture(scope="module")
def plain(browser: Browser, up: UpProcess) -> Iterator[BrowserContext]:
    """A browser without JavaScript."""
    found = browser.new_context(base_url=up.url, java_script_enabled=False)
    yield found
    found.close()


@pytest.mark.parametrize("name", PLACES)
def test_a_page_can_be_read_without_scripts(
    plain: BrowserContext, names: dict[str, str], name: str
) -> None:
    page = plain.new_page()
    page.goto(PLACES[name].address.format(**names))
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator("main")).to_contain_text(PLACES[name].says.format(**names))
    page.close()


def test_a_page_runs_no_script_but_ours(page: Page, names: dict[str, str]) -> None:
    answer = page.goto("/")
    assert answer is not None
    policy = answer.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "style-src 'self'"} <= set(policy)
    assert "unsafe" not in "".join(policy)
    refused = page.evaluate(
        """() => new Promise((resolve) => {
            document.addEventListener("securitypolicyviolation",
                (event) => resolve([event.effectiveDirective, "ran" in window]));
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
        })"""
    )
    assert refused == ["script-src-elem", False]


SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => list.getEntries().forEach((entry) => {
    if (!entry.hadRecentInput) window.shifts.push([entry.value, entry.sources.map((source) => {
        const part = source.node instanceof Element ? source.node : source.node?.parentElement;
        return part ? part.outerHTML.slice(0, 120) : "?";
    })]);
})).observe({ type: "layout-shift", buffered: true });
"""


def test_nothing_on_a_live_page_moves_but_what_is_meant_to(
    browser: Browser, up: UpProcess, api: Client
) -> None:
    run = new_run(api, batch_size=2, epochs=2)
    with browser.new_context(base_url=up.url) as context:
        context.add_init_script(SHIFTS)
        page = context.new_page()
        problems = watched(page, up.url)
        page.set_viewport_size({"width": 1280, "height": 3000})
        page.goto(f"/runs/{run}")
        expect(page.locator("#chart canvas")).to_be_visible()
        train(up, run, lambda _: page.wait_for_timeout(50))
        expect(page.locator("#state")).to_have_text("completed")
        shifts = page.evaluate("window.shifts")
    assert sum(value for value, _ in shifts) < SHIFT, shifts
    assert problems == []
