"""The list of runs, in a real chromium on the real stack: searched, sorted, paged, acted upon."""

import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from ddlp.core.client import Client
from tests.conftest import UpProcess, add_dataset, make_images
from tests.end_to_end.trainer import train

pytestmark = pytest.mark.browser

SHOWN = 50
"""Runs on one page of the list."""
MANY = SHOWN + 2


class Made:
    """Runs with a word of their own in their names, by which they are found among all others."""

    def __init__(self, api: Client) -> None:
        self._api = api
        self.word = f"w{uuid.uuid4().hex[:8]}"
        self.address = f"/?search={self.word}"

    def add(self, suffix: str, **fields: Any) -> str:
        """A run of one batch unless told otherwise, so that workers have little to do for it."""
        name = f"{self.word}-{suffix}"
        body = {"dataset": "fruit", "pipeline": "small", "batch_size": 123, "strategy": "cpu"}
        self._api.post("/runs", {"name": name, **body, **fields})
        return name

    def end(self) -> None:
        """Cancel what is left."""
        found = self._api.get(f"/runs?limit=200&search={self.word}")
        if active := [run["name"] for run in found if run["ended_at"] is None]:
            self._api.post("/runs/cancel", {"runs": active})


@pytest.fixture
def made(api: Client) -> Iterator[Made]:
    found = Made(api)
    yield found
    found.end()


@pytest.fixture(scope="module")
def many(up: UpProcess) -> Iterator[Made]:
    """More runs than a page of the list holds; all are over."""
    with up.client() as client:
        found = Made(client)
        for number in range(MANY):
            found.add(f"n{number:02}")
        found.end()
        yield found
        found.end()


def rows(page: Page) -> Locator:
    return page.locator(".runs tbody tr")


def names(page: Page) -> list[str]:
    return page.locator(".runs tbody th a").all_inner_texts()


def row(page: Page, run: str) -> Locator:
    return rows(page).filter(has=page.get_by_role("link", name=run, exact=True))


def state(page: Page, run: str) -> Locator:
    return row(page, run).locator(".chip")


def choose(page: Page, run: str) -> None:
    page.get_by_label(f"choose {run}").check()


def asked(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def mark(page: Page) -> None:
    """Remember this very page: loaded anew, it would not know any more."""
    page.evaluate("window.stayed = true")


def stayed(page: Page) -> bool:
    return bool(page.evaluate("window.stayed === true"))


@pytest.mark.usefixtures("many")
def test_the_list_narrows_while_one_types(page: Page, made: Made) -> None:
    first, second = made.add("apple"), made.add("pear")
    page.goto("/")
    expect(rows(page)).to_have_count(SHOWN)
    mark(page)
    search = page.get_by_label("search")
    search.press_sequentially(made.word.upper())
    expect(rows(page)).to_have_count(2)
    search.press_sequentially("-pe")
    expect(rows(page)).to_have_count(1)
    assert names(page) == [second]
    expect(search).to_be_focused()
    expect(page).to_have_url(re.compile(f"search={made.word.upper()}-pe$"))
    search.press_sequentially("x")
    expect(page.get_by_role("heading", name="No run matches")).to_be_visible()
    assert stayed(page)
    search.fill(f"{made.word}-a")
    expect(page).to_have_url(f"{made.address}-a")
    page.reload()
    expect(search).to_have_value(f"{made.word}-a")
    assert names(page) == [first]
    page.get_by_role("link", name="Clear filters").click()
    expect(page).to_have_url("/")
    expect(row(page, second)).to_be_visible()


@pytest.fixture
def berries(api: Client, scratch: Path) -> Iterator[str]:
    """A second dataset."""
    root = make_images(scratch / "berries", 6)
    add_dataset(api, root, "berries")
    yield "berries"
    api.delete("/datasets/berries?keep_runs=true")
    shutil.rmtree(root)


def test_filters_by_state_dataset_and_strategy_go_together(
    page: Page, api: Client, berries: str, made: Made
) -> None:
    plain, other = made.add("plain"), made.add("other", strategy="mte")
    small = made.add("small", strategy="mte", dataset=berries, batch_size=6)
    api.post(f"/runs/{other}/cancel")
    page.goto(made.address)
    expect(rows(page)).to_have_count(3)
    page.get_by_label("strategy").select_option("mte")
    expect(rows(page)).to_have_count(2)
    page.locator("#state-cancelled").click()
    expect(page.locator("#state-cancelled")).to_have_attribute("aria-current", "true")
    expect(rows(page)).to_have_count(1)
    assert names(page) == [other]
    expect(page.get_by_label("strategy")).to_have_value("mte")
    page.get_by_label("dataset", exact=True).select_option(berries)
    expect(page.get_by_role("heading", name="No run matches")).to_be_visible()
    expect(page).to_have_url(re.compile(r"state=cancelled.*dataset=berries"))
    page.get_by_label("dataset", exact=True).select_option("")
    expect(rows(page)).to_have_count(1)
    page.locator("#state-cancelled").click()
    expect(rows(page)).to_have_count(2)
    page.get_by_label("dataset", exact=True).select_option(berries)
    expect(rows(page)).to_have_count(1)
    assert names(page) == [small]
    expect(page.locator("#total")).to_have_text("1 run")
    assert plain not in names(page)
    made.end()


def test_a_column_sorts_both_ways_and_keeps_the_search(page: Page, many: Made) -> None:
    wanted = f"{many.address}-n"
    page.goto(wanted)
    header = page.get_by_role("columnheader", name="run", exact=True)
    first, last = f"{many.word}-n00", f"{many.word}-n{MANY - 1}"
    assert names(page)[0] == last
    expect(header).to_have_attribute("aria-sort", "none")
    for order, top in (("ascending", first), ("descending", last)):
        header.get_by_role("link").click()
        expect(header).to_have_attribute("aria-sort", order)
        expect(rows(page).first).to_contain_text(top)
        shown = names(page)
        assert shown == sorted(shown, reverse=order == "descending")
        assert len(shown) == SHOWN
    created = page.get_by_role("columnheader", name="created")
    created.get_by_role("link").click()
    expect(created).to_have_attribute("aria-sort", "descending")
    expect(page).to_have_url(wanted)


def test_pages_lead_forth_and_back_and_do_not_shift_when_runs_are_made(
    page: Page, many: Made
) -> None:
    page.goto(many.address)
    newest = names(page)
    assert len(newest) == SHOWN
    expect(page.get_by_role("link", name="Newer")).to_have_count(0)
    page.get_by_role("link", name="Older").click()
    expect(rows(page)).to_have_count(MANY - SHOWN)
    assert names(page) == [f"{many.word}-n01", f"{many.word}-n00"]
    assert asked(page)["search"] == [many.word]
    expect(page.get_by_role("link", name="Older")).to_have_count(0)
    late = many.add("late")
    page.get_by_role("link", name="Newer").click()
    expect(rows(page)).to_have_count(SHOWN)
    assert names(page) == newest
    page.get_by_role("link", name="Newer").click()
    expect(rows(page)).to_have_count(1)
    assert names(page) == [late]
    expect(page.get_by_role("link", name="Newer")).to_have_count(0)


def test_of_what_is_chosen_only_active_runs_are_cancelled_and_only_if_meant(
    page: Page, api: Client, made: Made
) -> None:
    runs = [made.add("one"), made.add("two"), made.add("over")]
    api.post(f"/runs/{runs[2]}/cancel")
    ended = api.get(f"/runs/{runs[2]}")["ended_at"]
    page.goto(made.address)
    cancel = page.get_by_role("button", name="Cancel selected")
    choose(page, runs[2])
    expect(cancel).to_be_disabled()
    choose(page, runs[0])
    choose(page, runs[1])
    expect(page.locator("#bulk-words")).to_have_text("3 runs selected.")
    cancel.click()
    question = page.locator("#confirm-words")
    expect(question).to_contain_text("Cancel 2 runs? They cannot be continued")
    expect(question).to_contain_text(runs[0])
    expect(question).not_to_contain_text(runs[2])
    page.get_by_role("button", name="Keep it").click()
    expect(page.locator("#confirm")).to_be_hidden()
    assert [api.get(f"/runs/{run}")["ended_at"] for run in runs] == [None, None, ended]
    cancel.click()
    page.get_by_role("button", name="Cancel 2 runs").click()
    expect(page.locator("#notices")).to_contain_text("2 runs cancelled.")
    for run in runs:
        expect(state(page, run)).to_have_text("cancelled")
    expect(cancel).to_be_disabled()
    expect(page.locator("#bulk-words")).to_contain_text("1 run selected")
    assert api.get(f"/runs/{runs[2]}")["ended_at"] == ended


def test_two_to_six_chosen_runs_are_compared(page: Page, many: Made) -> None:
    page.goto(many.address)
    compare = page.get_by_role("button", name="Compare selected")
    expect(compare).to_be_disabled()
    chosen = names(page)[:7]
    for run in chosen:
        choose(page, run)
    expect(page.locator("#bulk-words")).to_contain_text("At most six")
    expect(compare).to_be_disabled()
    for run in chosen[2:]:
        page.get_by_label(f"choose {run}").uncheck()
    compare.click()
    expect(page.get_by_role("heading", name="Compare runs")).to_be_visible()
    assert asked(page) == {"run": chosen[:2]}


def test_what_is_chosen_stays_so_when_the_list_is_sorted_or_narrowed(
    page: Page, many: Made
) -> None:
    page.goto(many.address)
    chosen = names(page)[1:3]
    for run in chosen:
        choose(page, run)
    page.get_by_role("columnheader", name="run").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="run")).to_have_attribute("aria-sort", "ascending")
    words = page.locator("#bulk-words")
    expect(words).to_contain_text("2 runs selected")
    page.goto("/?search=nothing-of-this-name")
    expect(words).to_have_text("2 runs selected, 2 of them not on this page.")
    page.goto(many.address)
    for run in chosen:
        expect(page.get_by_label(f"choose {run}")).to_be_checked()
    page.goto("/?search=nothing-of-this-name")
    page.get_by_role("button", name="Compare selected").click()
    assert asked(page) == {"run": chosen}
    page.goto(many.address)
    page.get_by_role("button", name="Clear selection").click()
    expect(words).to_have_text("Select two to six runs to compare them.")
    expect(page.locator("[name=run]:checked")).to_have_count(0)


def test_shift_chooses_all_rows_between(page: Page, many: Made) -> None:
    page.goto(many.address)
    shown = names(page)
    choose(page, shown[1])
    page.get_by_label(f"choose {shown[4]}").click(modifiers=["Shift"])
    expect(page.locator("#bulk-words")).to_contain_text("4 runs selected")
    for run in shown[1:5]:
        expect(page.get_by_label(f"choose {run}")).to_be_checked()
    page.get_by_label(f"choose {shown[2]}").click(modifiers=["Shift"])
    expect(page.locator("#bulk-words")).to_contain_text("1 run selected")
    expect(page.get_by_label(f"choose {shown[1]}")).to_be_checked()


def test_a_clone_begins_with_the_values_of_its_run(page: Page, made: Made) -> None:
    run = made.add("old", batch_size=41, seed=19, epochs=3, strategy="mte")
    page.goto(made.address)
    page.get_by_role("link", name=f"Clone {run}").click()
    expect(page).to_have_url(f"/runs/new?clone={run}")
    for label, value in (("Batch size", "41"), ("Seed", "19"), ("Epochs", "3")):
        expect(page.get_by_label(label, exact=True)).to_have_value(value)
    expect(page.locator("[name=strategy]:checked")).to_have_value("mte")


def test_a_row_follows_its_run_and_what_is_chosen_stays_chosen(
    page: Page, up: UpProcess, made: Made
) -> None:
    run = made.add("live", batch_size=4, strategy="wrr")
    page.goto(made.address)
    mark(page)
    choose(page, run)
    expect(state(page, run)).to_have_text("created")

    def look(step: int) -> None:
        if step == 16:
            expect(state(page, run)).to_have_text("running", timeout=15_000)
            expect(row(page, run).locator(".progress")).not_to_contain_text("100 %")
            expect(page.locator("#poll")).to_have_attribute("hx-trigger", "every 3s")

    train(up, run, look)
    expect(state(page, run)).to_have_text("completed", timeout=15_000)
    expect(row(page, run).locator(".progress")).to_contain_text("100 %")
    expect(row(page, run).locator(".mark").first).to_have_text("emulated CSD")
    expect(page.get_by_label(f"choose {run}")).to_be_checked()
    expect(page.get_by_role("button", name="Cancel selected")).to_be_disabled()
    expect(page.locator("#poll")).to_have_attribute("hx-trigger", "every 15s")
    assert stayed(page)


@pytest.mark.long
def test_a_run_that_is_made_elsewhere_appears_on_a_list_on_which_nothing_lives(
    page: Page, api: Client
) -> None:
    name = f"late-{uuid.uuid4().hex[:8]}x"
    page.goto(f"/?search={name}&dataset=fruit")
    expect(page.locator("#poll")).to_have_attribute("hx-trigger", "every 15s")
    api.post("/runs", {"name": name, "dataset": "fruit", "pipeline": "small"})
    expect(row(page, name)).to_be_visible(timeout=25_000)
    # What lives is asked for more often, and at once.
    expect(page.locator("#poll")).to_have_attribute("hx-trigger", "every 3s")
    api.post(f"/runs/{name}/cancel")
    expect(state(page, name)).to_have_text("cancelled", timeout=10_000)
