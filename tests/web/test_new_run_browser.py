"""Making a run by hand: problems beside their fields, a preview, a clone, and the first start."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from ddlp.core.client import Client
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.trainer import new_run

pytestmark = pytest.mark.browser

SEED = 2**53 + 1
"""JavaScript would round it."""

SEEN = "image => image.complete && image.naturalWidth > 0"


@pytest.fixture
def form(page: Page) -> Page:
    """The form with the small dataset and pipeline chosen, and its forecast there."""
    page.goto("/runs/new?dataset=fruit&pipeline=small&batch_size=8")
    expect(page.locator("#outlook")).to_contain_text("16 batches an epoch")
    return page


@pytest.fixture
def created(api: Client) -> Iterator[list[str]]:
    """Runs that a test makes; they are cancelled afterwards, so that nothing works for them."""
    names: list[str] = []
    yield names
    for name in names:
        api.post(f"/runs/{name}/cancel")


def test_a_run_is_made_by_hand(form: Page, api: Client, created: list[str]) -> None:
    size = form.get_by_label("Batch size")
    size.fill("500")
    wrong = form.locator("#wrong-batch_size")
    expect(wrong).to_contain_text("choose at most 123")
    expect(size).to_have_attribute("aria-invalid", "true")
    expect(form.locator("#outlook")).to_have_attribute("data-usable", "no")
    size.fill("16")
    expect(wrong).to_be_hidden()
    expect(form.locator("#outlook")).to_contain_text("8 batches an epoch")
    form.get_by_role("link", name="Even mix, strict").click()
    window = form.get_by_label("Reorder window")
    expect(window).to_have_value("0")
    form.get_by_label("Name", exact=True).fill("by-hand")
    form.get_by_text("The same on the command line").click()
    expect(form.locator("#check pre")).to_contain_text("--name by-hand")
    form.get_by_role("button", name="Create run").click()
    expect(form).to_have_url("/runs/by-hand")
    created.append("by-hand")
    run = api.get("/runs/by-hand")
    assert (run["strategy"], run["reorder_window"], run["batch_size"]) == ("bounded", 0, 16)


def test_a_run_whose_answer_was_lost_is_not_made_again(
    form: Page, api: Client, created: list[str]
) -> None:
    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    form.route("**/api/v1/runs", lose, times=1)
    form.get_by_label("Name", exact=True).fill("once")
    created.append("once")
    form.get_by_role("button", name="Create run").click()
    expect(form.locator("form .problem")).to_contain_text("does not answer")
    form.get_by_role("button", name="Create run").click()
    expect(form).to_have_url("/runs/once")


def test_a_refusal_of_the_server_is_shown_in_the_form(
    form: Page, api: Client, created: list[str]
) -> None:
    created.append(new_run(api))
    form.get_by_label("Name", exact=True).fill(created[0])
    expect(form.locator("#wrong-name")).to_contain_text("already; choose another name")
    form.get_by_role("button", name="Create run").click()
    expect(form.locator("form .problem")).to_contain_text("choose another name")
    expect(form).to_have_url("/runs/new?dataset=fruit&pipeline=small&batch_size=8")


def test_real_samples_are_shown_as_the_pipeline_makes_them_one_sheet_at_a_time(page: Page) -> None:
    at_once: list[str] = []
    most = 0

    def begun(request: object) -> None:
        nonlocal most
        url = getattr(request, "url", "")
        if "preview.png" in url:
            at_once.append(url)
            most = max(most, len(at_once))

    page.on("request", begun)
    page.on("requestfinished", lambda r: at_once.remove(r.url) if r.url in at_once else None)
    page.goto("/runs/new?dataset=fruit&pipeline=small&batch_size=8")
    first, second = page.locator("#pictures img").all()
    for image in (first, second):
        wait_for_picture(image)
    shown = first.get_attribute("src")
    assert shown != second.get_attribute("src")
    page.get_by_text("What was drawn").click()
    expect(page.locator(".drawn tbody tr")).to_have_count(9)
    expect(page.locator(".drawn tbody")).to_contain_text("random-resized-crop: left")
    page.get_by_role("link", name="Next epochs").click()
    expect(page.locator("#pictures figcaption").first).to_contain_text("Epoch 1")
    page.locator("[name=pipeline][value=cifar-val]").check()
    expect(page.locator("#pictures figcaption").first).to_contain_text("as cifar-val makes them")
    wait_for_picture(page.locator("#pictures img").nth(1))
    assert most == 1


def wait_for_picture(image: object) -> None:
    wait_until(lambda: image.evaluate(SEEN))  # type: ignore[attr-defined]


def test_a_clone_copies_all_that_decides_a_run(page: Page, api: Client, created: list[str]) -> None:
    source = new_run(
        api, strategy="mte", seed=SEED, epochs=3, on_bad="skip", world_size=2, cpu_window=5
    )
    created.append(source)
    page.goto(f"/runs/new?clone={source}")
    expect(page.locator("main")).to_contain_text(f"Cloned from {source}")
    expect(page.get_by_label("Seed")).to_have_value(str(SEED))
    page.get_by_role("button", name="Create run").click()
    expect(page).to_have_url(f"/runs/{source}-2")
    created.append(f"{source}-2")
    one, other = api.get(f"/runs/{source}"), api.get(f"/runs/{source}-2")
    same = ["dataset_version", "pipeline_hash", "batch_size", "epochs", "seed", "strategy"]
    same += ["world_size", "tail", "on_bad", "max_bad_share", "calibration", "reorder_window"]
    assert {key: one[key] for key in same} == {key: other[key] for key in same}
    assert other["limits"]["cpu_window"] == 5


def test_an_open_ended_run_is_made_and_cloned(page: Page, api: Client, created: list[str]) -> None:
    page.goto("/runs/new?dataset=fruit&pipeline=small&batch_size=8&name=endless")
    page.get_by_label("Epochs").fill("")
    page.get_by_role("button", name="Create run").click()
    expect(page).to_have_url("/runs/endless")
    created.append("endless")
    page.goto("/runs/new?clone=endless")
    expect(page.get_by_label("Epochs")).to_have_value("")
    expect(page.get_by_label("Ranks")).to_have_value("")
    page.get_by_role("button", name="Create run").click()
    expect(page).to_have_url("/runs/endless-2")
    created.append("endless-2")
    for run in ("endless", "endless-2"):
        info = api.get(f"/runs/{run}")
        assert (info["epochs"], info["fixed_ranks"]) == (None, False)


def test_without_scripts_the_form_is_filled_checked_and_foretold(
    browser: Browser, up: UpProcess
) -> None:
    context = browser.new_context(base_url=up.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/runs/new?dataset=fruit&pipeline=small&batch_size=8")
    page.get_by_label("Batch size").fill("500")
    page.get_by_role("button", name="Check and foretell").click()
    expect(page.locator("#wrong-batch_size")).to_contain_text("choose at most 123")
    context.close()
