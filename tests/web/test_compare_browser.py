"""Runs side by side, in a real chromium on the real stack."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from ddlp.core.client import Client
from tests.conftest import UpProcess
from tests.end_to_end.trainer import new_run, train

pytestmark = pytest.mark.browser


@dataclass(frozen=True)
class Pair:
    """Two trained runs that differ in their strategy, and another that nobody trains."""

    wrr: str
    mte: str
    waiting: str


def train_slowly(up: UpProcess, run: str) -> None:
    """Train for so long that throughput is measured."""
    train(up, run, at_step=lambda _: time.sleep(0.05))


@pytest.fixture(scope="module")
def pair(up: UpProcess) -> Iterator[Pair]:
    with up.client() as client:
        wrr, mte = (new_run(client, strategy=which, epochs=4) for which in ("wrr", "mte"))
        for run in (wrr, mte):
            train_slowly(up, run)
        waiting = new_run(client, strategy="wrr", epochs=4, batch_size=16)
        yield Pair(wrr, mte, waiting)
        client.post(f"/runs/{waiting}/cancel")


def address(*runs: str) -> str:
    return f"/runs/compare?{urlencode({'run': runs}, doseq=True)}"


def compared(page: Page) -> Locator:
    return page.locator("#compared li")


def follow(page: Page, run: str, words: str) -> None:
    compared(page).filter(has_text=run).get_by_role("link", name=words).click()


def cells(page: Page, table: str, label: str) -> Locator:
    row = page.locator(f"#{table} tbody tr").filter(
        has=page.get_by_role("rowheader", name=label, exact=True)
    )
    return row.locator("td")


def test_two_runs_lie_over_each_other_and_their_difference_is_named(page: Page, pair: Pair) -> None:
    page.goto(address(pair.wrr, pair.mte))
    for chart in ("#images-chart", "#watts-chart"):
        expect(page.locator(f"{chart} canvas")).to_be_visible()
    expect(page.locator("#summary")).to_contain_text(
        re.compile(r"^mte delivered (as many|[\d.]+ % (more|fewer)) images/s (as|than) wrr")
    )
    expect(page.locator("#summary")).to_contain_text("with one run each it cannot be said")
    expect(page.locator("#summary .mark")).to_have_text("emulated")
    expect(page.locator("#differences tbody tr")).to_have_count(1)
    expect(cells(page, "differences", "strategy")).to_have_text(["wrr", "mte"])
    expect(page.locator("#differences mark")).to_have_text(["mte"])
    expect(page.locator("main")).to_contain_text("The same everywhere: dataset fruit")


def test_curves_begin_at_the_start_and_not_before_it(page: Page, pair: Pair) -> None:
    """Both runs had batches made before their trainers came: joules that belong to no curve."""
    page.add_init_script(
        """const fillText = CanvasRenderingContext2D.prototype.fillText;
        window.words = [];
        CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
            window.words.push(text);
            return fillText.call(this, text, ...rest);
        };"""
    )
    page.goto(address(pair.wrr, pair.mte))
    expect(page.locator("#watts-chart canvas")).to_be_visible()
    page.wait_for_function("window.words.some(word => word.endsWith(' W'))")
    words = page.evaluate("window.words")
    assert "0 s" in words
    assert [word for word in words if word.startswith(("-", "−"))] == []


def test_what_the_difference_changed_has_figures_with_units(page: Page, pair: Pair) -> None:
    page.goto(address(pair.wrr, pair.mte))
    base, other = cells(page, "figures", "delivered").all()
    expect(base).to_have_text(re.compile(r"^[\d,.]+ images/s$"))
    expect(other).to_have_text(re.compile(r"^[\d,.]+ images/s[+-][\d.]+ % · "))
    made = cells(page, "figures", "images made by the CSD")
    expect(made).to_have_text([re.compile(r"^[\d.]+ %"), re.compile(r"^[\d.]+ %")])
    expect(page.locator("#where svg.spent")).to_have_count(2)
    expect(page.locator("#where svg.spent").first).to_have_attribute(
        "aria-label", re.compile("training")
    )


def test_another_run_becomes_the_base_one_is_added_and_one_removed(page: Page, pair: Pair) -> None:
    page.goto(address(pair.wrr, pair.mte))
    expect(compared(page).first).to_contain_text("base")
    follow(page, pair.mte, "Make base")
    expect(page).to_have_url(address(pair.mte, pair.wrr))
    expect(compared(page).first).to_contain_text(pair.mte)
    expect(compared(page).first).to_contain_text("base")
    expect(cells(page, "differences", "strategy")).to_have_text(["mte", "wrr"])
    page.get_by_label("add a run").fill(pair.waiting)
    page.get_by_role("button", name="Add").click()
    expect(page).to_have_url(address(pair.mte, pair.wrr, pair.waiting))
    expect(compared(page)).to_have_count(3)
    expect(cells(page, "differences", "batch size")).to_have_text(["8", "8", "16"])
    follow(page, pair.mte, "Remove")
    expect(page).to_have_url(address(pair.wrr, pair.waiting))
    follow(page, pair.waiting, "Remove")
    expect(page.get_by_role("status").first).to_have_text("Choose one more to compare it with.")
    expect(page.locator("[name=run]:checked")).to_have_count(1)
    page.locator(f"[name=run][value='{pair.mte}']").check()
    page.get_by_role("button", name="Compare").click()
    expect(compared(page)).to_have_count(2)


def test_a_run_that_goes_on_is_told_from_those_that_are_over(page: Page, pair: Pair) -> None:
    page.goto(address(pair.wrr, pair.waiting))
    over, goes_on = compared(page).all()
    expect(over).to_contain_text("images/s delivered on average over")
    expect(over).not_to_contain_text("so far")
    expect(goes_on).to_contain_text("no trainer has taken an image yet")
    expect(goes_on).to_contain_text("these are the figures so far")
    expect(cells(page, "figures", "delivered").last).to_have_text("—")
    expect(page.locator("#images-chart canvas")).to_be_visible()


def test_what_cannot_be_compared_is_explained_and_can_be_chosen_anew(
    page: Page, api: Client, pair: Pair
) -> None:
    unknown = [f"unknown-{number}" for number in range(5)]
    answer = page.goto(address(pair.wrr, pair.mte, *unknown))
    assert answer is not None
    assert answer.status == 422
    problem = page.locator("main .notice")
    expect(problem).to_have_text("7 runs are too many to compare; choose at most 6")
    for run in (pair.wrr, pair.mte):
        expect(page.locator(f"[name=run][value='{run}']")).to_be_checked()
    answer = page.goto(address(pair.wrr, "unknown-0"))
    assert answer is not None
    assert answer.status == 404
    expect(problem).to_contain_text("there is no run unknown-0")
    page.locator(f"[name=run][value='{pair.mte}']").check()
    page.get_by_role("button", name="Compare").click()
    # The list has the newest first, so that the one that was made last is the base.
    expect(page).to_have_url(address(pair.mte, pair.wrr))
    expect(compared(page)).to_have_count(2)


def test_repeats_of_one_run_are_taken_together(page: Page, up: UpProcess, pair: Pair) -> None:
    with up.client() as client:
        again = new_run(client, strategy="wrr", epochs=4, seed=5)
    train_slowly(up, again)
    page.goto(address(pair.wrr, again, pair.mte))
    columns = page.locator("#figures thead th")
    expect(columns.nth(1)).to_contain_text(f"{pair.wrr}, {again}")
    expect(cells(page, "figures", "delivered").first).to_contain_text("±")
    expect(page.locator("#summary")).to_contain_text("with so few runs it cannot be said")
    follow(page, pair.mte, "Remove")
    expect(page.locator("#summary")).to_contain_text("These runs are repeats of each other")
    expect(page.locator("main")).to_contain_text("Nothing: these runs are repeats of each other.")
