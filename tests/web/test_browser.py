"""What a person sees, in a real chromium on the real stack."""

import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from ddlp.core.client import Client
from ddlp.core.pipeline import ENGINE
from ddlp.loader import DualLoader
from tests.conftest import UpProcess, add_dataset, add_fruit, make_images, wait_until
from tests.end_to_end.trainer import new_run, train

pytestmark = pytest.mark.browser


def taken(page: Page, prong: str) -> float:
    """How far a front has come, in the bar's own units."""
    widths = page.locator(f"#fronts > rect[class^='{prong}-']").evaluate_all(
        "parts => parts.map(part => Number(part.getAttribute('width')))"
    )
    return round(sum(widths), 1)


def test_the_two_fronts_move_towards_each_other(page: Page, up: UpProcess, api: Client) -> None:
    run = new_run(api, strategy="mte", batch_size=2)
    api.post(f"/runs/{run}/pause")
    page.goto(f"/runs/{run}")
    expect(page.locator("#state")).to_have_text("paused")
    seen = [(taken(page, "cpu"), taken(page, "csd"))]
    api.post(f"/runs/{run}/resume")

    def look(step: int) -> None:
        if step % 10 == 0:
            page.wait_for_timeout(600)
            seen.append((taken(page, "cpu"), taken(page, "csd")))

    train(up, run, look)
    expect(page.locator("#state")).to_have_text("completed")
    seen.append((taken(page, "cpu"), taken(page, "csd")))
    cpu, csd = zip(*seen, strict=True)
    assert cpu[0] < cpu[-1]
    assert csd[0] < csd[-1]
    assert list(cpu) == sorted(cpu)
    # Once they have met, the faster side may win a race for a batch that the other one holds.
    approaching = [tail for head, tail in seen if head + tail < 999]
    assert approaching == sorted(approaching)
    assert cpu[-1] + csd[-1] == pytest.approx(1000, abs=1)
    expect(page.locator("#outlook")).to_contain_text("CPU and CSD met at batch")
    assert page.title().startswith("100 %")


def test_certificates_are_checked_on_the_page(page: Page, up: UpProcess, api: Client) -> None:
    run = new_run(api)
    train(up, run)
    page.goto(f"/runs/{run}")
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#proof")).to_contain_text("every sample exactly once")
    page.get_by_role("link", name="certificate of epoch 0").click()
    expect(page.locator("body")).to_contain_text('"digest"')


def test_the_strategy_is_switched_while_a_trainer_goes_on(
    page: Page, up: UpProcess, api: Client
) -> None:
    run = new_run(api, strategy="cpu", batch_size=2)
    page.goto(f"/runs/{run}")

    def switch(step: int) -> None:
        if step == 5:
            page.get_by_label("strategy", exact=True).select_option("wrr")
            page.get_by_role("button", name="Switch strategy").click()
            expect(page.locator(".chip", has_text="wrr")).to_be_visible()

    [account] = train(up, run, switch)
    assert account.samples == Counter(dict.fromkeys(range(123), 1))
    expect(page.locator("#state")).to_have_text("completed")
    expect(page.get_by_role("button", name="Switch strategy")).to_have_count(0)
    assert api.get(f"/runs/{run}")["strategy"] == "wrr"


def test_a_window_is_left_behind_with_the_strategy_that_it_belongs_to(
    page: Page, api: Client
) -> None:
    run = new_run(api, strategy="bounded", reorder_window=4)
    page.goto(f"/runs/{run}")
    window = page.get_by_label("reorder window")
    expect(window).to_have_value("4")
    expect(window).to_be_enabled()
    page.get_by_label("strategy", exact=True).select_option("wrr")
    expect(window).to_be_disabled()
    page.get_by_role("button", name="Switch strategy").click()
    expect(page.locator("#notices")).to_contain_text("The strategy is switched.")
    assert api.get(f"/runs/{run}")["strategy"] == "wrr"
    api.post(f"/runs/{run}/cancel")


def test_the_chart_of_a_run_shows_what_was_before_the_page_was_opened(
    page: Page, up: UpProcess, api: Client
) -> None:
    run = new_run(api, batch_size=2)

    def look(step: int) -> None:
        page.wait_for_timeout(150)
        if step == 50:
            page.goto(f"/runs/{run}")
            # One point a second comes live: so many at once are those from before.
            several = re.compile(r"^([5-9]|\d\d+)$")
            expect(page.locator("#chart")).to_have_attribute("data-points", several, timeout=3000)

    train(up, run, look, prefetch=1)


def test_the_rates_of_both_prongs_are_shown_live(page: Page, up: UpProcess, api: Client) -> None:
    run = new_run(api, batch_size=2)
    page.goto(f"/runs/{run}")
    figures: set[str] = set()

    def look(step: int) -> None:
        if step % 12 == 0:
            page.wait_for_timeout(700)
            figures.add(page.locator("#cpu-rate").inner_text())
            figures.add(page.locator("#csd-rate").inner_text())

    train(up, run, look)
    assert any(float(figure.replace(",", "")) > 0 for figure in figures)
    expect(page.locator("#chart canvas")).to_be_visible()


def test_where_the_time_goes_and_who_did_what_are_shown_live_and_stay(
    page: Page, up: UpProcess, api: Client
) -> None:
    run = new_run(api, batch_size=4, epochs=2)
    # What a trainer spent comes with its requests: it must not have read all ahead at once.
    with DualLoader(run=run, url=up.url, prefetch=4) as loader:
        for number, _ in enumerate(loader):
            if number == 20:
                page.goto(f"/runs/{run}")
                expect(page.locator("#spent rect").first).to_be_attached()
                expect(page.locator("#timeline .lane")).to_have_count(4)
        for _ in loader:
            pass
    expect(page.locator("#state")).to_have_text("completed")
    expect(page.locator("#timeline .lane")).to_have_count(4)
    widths = page.locator("#spent rect").evaluate_all(
        "parts => parts.map(part => Number(part.getAttribute('width')))"
    )
    assert round(sum(widths)) == 1000
    expect(page.locator("#limit")).to_contain_text(re.compile("limit(s|ed) the run|too early"))
    expect(page.locator("tbody.apart, #spent")).not_to_have_count(0)


def test_the_list_leads_to_a_run_and_names_what_is_emulated(
    page: Page, up: UpProcess, api: Client
) -> None:
    run = new_run(api)
    page.goto("/")
    expect(page).to_have_title("Runs · DDLP")
    row = page.get_by_role("row", name=re.compile(run))
    expect(row).to_contain_text("created")
    expect(page.get_by_role("link", name=re.compile("devices? live"))).to_contain_text("emulated")
    row.get_by_role("link", name=run, exact=True).click()
    expect(page.get_by_role("heading", name=run)).to_be_visible()
    expect(page.locator(".legend").first).to_contain_text("emulated")
    api.post(f"/runs/{run}/cancel")


def test_a_run_is_paused_resumed_and_cancelled_on_its_page(
    page: Page, up: UpProcess, api: Client
) -> None:
    run = new_run(api)
    page.goto(f"/runs/{run}")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#state")).to_have_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#state")).to_have_text("running")
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.locator("#confirm")).to_contain_text(f"Cancel {run}?")
    page.get_by_role("button", name="Keep it").click()
    assert api.get(f"/runs/{run}")["state"] == "running"
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name=f"Cancel {run}").click()
    expect(page.locator("#state")).to_have_text("cancelled")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)


def test_a_completed_run_is_extended_and_a_cancelled_one_deleted_on_its_page(
    page: Page, up: UpProcess, api: Client
) -> None:
    run = new_run(api)
    train(up, run)
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    page.goto(f"/runs/{run}")
    page.get_by_label("epochs in all").fill("3")
    page.get_by_role("button", name="Extend").click()
    expect(page.locator("#state")).to_have_text("paused")
    assert api.get(f"/runs/{run}")["epochs"] == 3
    api.post(f"/runs/{run}/cancel")
    page.goto(f"/runs/{run}")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("#confirm")).to_contain_text(f"Delete {run}?")
    page.get_by_role("button", name=f"Delete {run}").click()
    page.wait_for_url(f"{up.url}/")
    assert run not in [entry["name"] for entry in api.get("/runs?limit=200")]


def test_windows_and_budgets_are_changed_in_place_and_what_failed_is_tried_again(
    page: Page, up: UpProcess, api: Client
) -> None:
    run = new_run(api)
    page.goto(f"/runs/{run}")
    unchanged = page.get_by_role("button", name="Change limits")
    expect(unchanged).to_be_disabled()
    page.get_by_label("CPU window, batches").fill("5")
    expect(unchanged).to_be_enabled()
    page.get_by_label("CSD store, MB").fill("0.5")
    page.get_by_role("button", name="Change limits").click()
    assert api.get(f"/runs/{run}")["limits"]["cpu_window"] != 5  # the browser refuses 0.5
    page.get_by_label("CSD store, MB").fill("3")
    page.get_by_role("button", name="Change limits").click()
    expect(page.locator("#notices")).to_contain_text("The limits are changed.")
    expect(unchanged).to_be_disabled()
    limits = api.get(f"/runs/{run}")["limits"]
    assert (limits["cpu_window"], limits["csd_store_bytes"]) == (5, 3_000_000)
    assert limits["own"] == ["cpu_window", "csd_store_bytes"]  # what was not touched is not sent
    expect(page.locator("#controls")).to_contain_text("in force: 5 batches unconsumed at most")
    expect(page.locator("#events")).to_contain_text("limits")
    api.post(f"/runs/{run}/cancel")
    page.get_by_role("button", name="Retry").click()
    page.wait_for_url("**/runs/*-2")
    again = page.get_by_role("heading", level=1).inner_text()
    assert api.get(f"/runs/{again}")["limits"]["cpu_window"] == 5
    api.post(f"/runs/{again}/cancel")


@pytest.fixture
def spoilt(api: Client, scratch: Path) -> Iterator[str]:
    """A dataset with a rejected file, of which samples were spoilt after the scan."""
    root = make_images(scratch / "spoilt", 30)
    (root / "plum" / "0002.jpg").write_bytes(b"nothing")
    name = add_dataset(api, root, "spoilt")["name"]
    for path in sorted(root.glob("pear/*.jpg"))[:2]:
        change = path.stat()
        whole = path.read_bytes()
        path.write_bytes(whole[:300] + b"\xff\xd8" * ((len(whole) - 300) // 2))
        os.utime(path, ns=(change.st_atime_ns, change.st_mtime_ns))
    (root / "apple" / "0000.jpg").write_bytes(b"changed")
    yield name
    for run in api.get("/runs?limit=200"):
        if run["dataset"] == name and run["ended_at"] is None:
            api.post(f"/runs/{run['name']}/cancel")
    api.delete(f"/datasets/{name}?keep_runs=true")
    shutil.rmtree(root)


def test_bad_samples_appear_on_the_page_while_it_is_open(
    page: Page, up: UpProcess, api: Client, spoilt: str
) -> None:
    # The second epoch's bad samples come when the first is over: the page cannot know them at once.
    fields = {"on_bad": "replace", "max_bad_share": 0.5, "strategy": "cpu", "batch_size": 4}
    run = new_run(api, dataset=spoilt, epochs=2, **fields)
    api.post(f"/runs/{run}/pause")
    page.goto(f"/runs/{run}")
    expect(page.locator("#bad")).to_contain_text("is replaced by another of its class")
    api.post(f"/runs/{run}/resume")
    train(up, run)
    expect(page.locator("#state")).to_have_text("completed")
    expect(page.locator("#live #engine")).to_have_text(ENGINE)
    count = api.get(f"/runs/{run}")["bad_samples"]
    assert count >= 2
    expect(page.locator("#bad-count")).to_have_text(str(count), timeout=20_000)
    expect(page.get_by_role("columnheader", name="picture")).to_be_attached()
    expect(page.locator("#bad tbody tr")).to_have_count(count)
    row = page.locator("#bad").locator("tr", has_text="apple/0000.jpg").first
    expect(row).to_contain_text("changed after it was indexed")
    expect(row).to_contain_text("replaced by sample")
    page.goto("/")
    expect(page.get_by_role("row", name=re.compile(run))).to_contain_text(str(count))


def test_a_dataset_has_a_page_with_what_was_rejected(page: Page, spoilt: str) -> None:
    page.goto("/")
    page.locator("nav").get_by_role("link", name="Datasets").click()
    expect(page).to_have_title("Datasets · DDLP")
    row = page.locator("#datasets").get_by_role("row", name=re.compile(spoilt))
    expect(row).to_contain_text("ready")
    row.get_by_role("link").click()
    expect(page.locator("#state")).to_have_text("ready")
    expect(page.locator("#rejected")).to_contain_text("plum/0002.jpg")


@pytest.fixture
def many(scratch: Path) -> Iterator[Path]:
    """Images that take a while to look at."""
    inside = scratch / "many" / "class"
    inside.mkdir(parents=True)
    Image.new("RGB", (1500, 1500), (90, 80, 70)).save(inside / "0.jpg")
    for number in range(1, 5000):
        os.link(inside / "0.jpg", inside / f"{number}.jpg")
    yield inside.parent
    shutil.rmtree(inside.parent)


def remove_dataset(up: UpProcess, name: str) -> None:
    with up.client() as client:
        client.delete(f"/datasets/{name}?keep_runs=true")


def test_pages_follow_a_scan_and_keep_the_focus(
    page: Page, up: UpProcess, api: Client, many: Path
) -> None:
    api.post("/datasets", {"uri": str(many), "name": "many", "check": "full"})
    page.goto("/datasets")
    row = page.get_by_role("row", name=re.compile("many"))
    link = row.get_by_role("link")
    link.focus()
    link.evaluate("link => { link.seen = true; }")
    first = row.locator("small").last.inner_text()
    expect(row.locator("small").last).not_to_have_text(first, timeout=20_000)
    expect(link).to_be_focused()
    assert link.evaluate("link => link.seen")
    page.goto("/datasets/many")
    expect(page.locator("#state")).to_have_text("scanning")
    first = page.locator("#scan + p").inner_text()
    expect(page.locator("#scan + p")).not_to_have_text(first, timeout=20_000)
    remove_dataset(up, "many")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible(timeout=20_000)


def test_a_page_sees_the_end_of_a_scan(page: Page, up: UpProcess, api: Client, many: Path) -> None:
    for path in sorted((many / "class").iterdir())[250:]:
        path.unlink()
    api.post("/datasets", {"uri": str(many), "name": "many", "check": "full"})
    page.goto("/datasets/many")
    expect(page.locator("#state")).to_have_text("scanning")
    expect(page.locator("#state")).to_have_text("ready", timeout=60_000)
    expect(page.locator("#rejected")).to_contain_text("The scan left nothing out.")
    expect(page.locator("#poll")).to_have_count(0)
    remove_dataset(up, "many")


def test_an_address_that_leads_nowhere_is_explained(page: Page) -> None:
    page.goto("/runs/nothing")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.locator("main")).to_contain_text("there is no run nothing")


def test_without_javascript_the_page_can_be_read(
    browser: Browser, up: UpProcess, api: Client
) -> None:
    run = new_run(api)
    train(up, run)
    context = browser.new_context(base_url=up.url, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"/runs/{run}")
    expect(page.get_by_role("heading", name=run)).to_be_visible()
    expect(page.locator("#fronts")).to_have_attribute("aria-label", re.compile("CPU delivered"))
    context.close()


@pytest.fixture
def empty(tmp_path: Path, images: Path) -> Iterator[UpProcess]:
    """An installation that nobody has used yet, and that may be harmed."""
    with UpProcess(tmp_path / "home", [images], cpu_workers="1") as running:
        yield running


def test_a_new_installation_says_what_to_do_and_a_page_survives_a_restart(
    browser: Browser, empty: UpProcess, images: Path
) -> None:
    page = browser.new_page(base_url=empty.url)
    page.goto("/")
    expect(page.locator("main")).to_contain_text("No runs yet")
    add_fruit(empty, images)
    with empty.client() as client:
        run = new_run(client, strategy="cpu", batch_size=2)
    page.goto(f"/runs/{run}")
    with DualLoader(run=run, url=empty.url, prefetch=1) as loader:
        batches = loader.batches()
        for _ in range(5):
            next(batches)
        before = page.locator("#cpu-delivered")
        expect(before).not_to_have_text("0")
        os.kill(empty.children()["serve"], signal.SIGKILL)
        expect(page.locator("#offline")).to_be_visible()
        rest = [batch.index for batch in batches]
    assert len(rest) == 57
    expect(page.locator("#offline")).to_be_hidden(timeout=20_000)
    expect(page.locator("#state")).to_have_text("completed", timeout=20_000)
    page.close()
