"""Datasets in a real chromium: registered with help, looked at, and removed."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from ddlp.core.client import Client
from tests.conftest import UpProcess, add_dataset, make_images
from tests.end_to_end.trainer import new_run, train

pytestmark = pytest.mark.browser


@pytest.fixture
def place(scratch: Path, api: Client) -> Iterator[Path]:
    """Images that nobody has registered yet, more of one class than of the others."""
    root = make_images(scratch / "shown", 60)
    for number in range(12):
        shutil.copy(root / "pear" / "0001.jpg", root / "pear" / f"copy-{number}.jpg")
    (root / "plum" / "0002.jpg").write_bytes(b"nothing")
    yield root
    if any(entry["name"] == "shown" for entry in api.get("/datasets")):
        api.delete("/datasets/shown?keep_runs=true")
    shutil.rmtree(root)


def pictures_seen(page: Page) -> Locator:
    """Samples in the grid, once all their pictures are there."""
    images = page.locator("#samples .grid img")
    expect(images.first).to_be_visible()
    page.wait_for_function(
        "() => [...document.querySelectorAll('#samples .grid img')].slice(0, 6)"
        ".every(image => image.complete && image.naturalWidth > 0)"
    )
    return images


def test_a_dataset_is_registered_with_help_and_its_scan_is_followed(
    page: Page, place: Path
) -> None:
    page.goto("/datasets")
    field = page.get_by_label("place on the server")
    field.fill("/etc")
    expect(page.locator("#told")).to_contain_text("not below an allowed folder")
    field.fill(str(place)[:-2])
    expect(page.locator(f'#known-places option[value="{place}/"]')).to_be_attached()
    field.fill(str(place))
    expect(page.locator("#told")).to_contain_text("one subfolder of images a class")
    page.get_by_label("name").fill("no good name")
    page.get_by_role("button", name="Register and scan").click()
    expect(page.locator("#register .problem")).to_contain_text("name")
    page.get_by_label("name").fill("shown")
    page.get_by_role("button", name="Register and scan").click()
    page.wait_for_url("**/datasets/shown")
    expect(page.locator("#state")).to_have_text("ready")
    expect(page.locator(".tiles")).to_contain_text("71")
    assert pictures_seen(page).count() == 24


def test_samples_are_looked_through_by_class_and_order(
    page: Page, api: Client, place: Path
) -> None:
    add_dataset(api, place, "shown")
    page.goto("/datasets/shown")
    pictures_seen(page)
    labels = set(page.locator("#samples .grid b").all_inner_texts())
    assert labels == {"apple", "pear", "plum"}
    page.get_by_label("class", exact=True).select_option("pear")
    expect(page.locator("#samples h2")).to_have_text("Samples · 1 to 24 of 32")
    assert set(page.locator("#samples .grid b").all_inner_texts()) == {"pear"}
    page.get_by_role("link", name="Next →").click()
    expect(page.locator("#samples h2")).to_have_text("Samples · 25 to 32 of 32")
    page.get_by_role("link", name="In order").click()
    expect(page.get_by_role("link", name="In order")).to_have_count(0)
    names = page.locator("#samples .grid li").evaluate_all("all => all.map(one => one.title)")
    assert names == sorted(names)
    assert page.url.endswith("/datasets/shown")
    page.get_by_role("link", name="Shuffle").click()
    expect(page.get_by_role("link", name="In order")).to_be_visible()
    shuffled = page.locator("#samples .grid li").evaluate_all("all => all.map(one => one.title)")
    assert shuffled != names


def test_balance_and_sizes_are_drawn_and_lead_to_the_samples(
    page: Page, api: Client, place: Path
) -> None:
    add_dataset(api, place, "shown")
    page.goto("/datasets/shown")
    expect(page.locator("#balance")).to_contain_text("times the samples of the smallest")
    counts = page.locator("#balance td.num").all_inner_texts()
    assert counts == ["32", "20", "19"]
    widths = page.locator("#balance rect").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().width)"
    )
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 1.5 * widths[2] > 0
    expect(page.locator("#sizes figure")).to_have_count(2)
    heights = (
        page.locator("#sizes .bars")
        .first.locator("rect")
        .evaluate_all("all => all.map(one => one.getBoundingClientRect().height)")
    )
    assert max(heights) > 50
    page.locator("#balance").get_by_role("link", name="apple").click()
    expect(page.locator("#samples h2")).to_have_text("Samples · 1 to 20 of 20")


def test_samples_that_runs_could_not_use_have_picture_and_reason(
    page: Page, up: UpProcess, api: Client, place: Path
) -> None:
    add_dataset(api, place, "shown")
    spoilt = place / "apple" / "0000.jpg"
    spoilt.write_bytes(spoilt.read_bytes() + b"more")
    fields = {"on_bad": "replace", "max_bad_share": 0.5, "strategy": "cpu"}
    run = new_run(api, dataset="shown", **fields)
    train(up, run)
    page.goto("/datasets/shown")
    row = page.locator("#quarantine tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("apple/0000.jpg")
    expect(row).to_contain_text("changed after it was indexed")
    expect(row.get_by_role("link", name=run)).to_have_attribute("href", f"/runs/{run}#bad")
    expect(row.locator("img")).to_be_visible()
    expect(page.locator("#rejected")).to_contain_text("plum/0002.jpg")


def test_a_dataset_is_removed_only_when_that_is_meant(page: Page, api: Client, place: Path) -> None:
    add_dataset(api, place, "shown")
    run = new_run(api, dataset="shown")
    page.goto("/datasets/shown")
    remove = page.get_by_role("button", name="Remove", exact=True)
    remove.click()
    expect(page.locator("#confirm")).to_contain_text("Its files stay where they are.")
    page.get_by_role("button", name="Keep it").click()
    remove.click()
    page.get_by_role("button", name="Remove shown").click()
    expect(page.locator("#notices")).to_contain_text(f"is used by {run}")
    api.post(f"/runs/{run}/cancel")
    remove.click()
    page.get_by_role("button", name="Remove shown").click()
    expect(page.locator("#notices")).to_contain_text(f"there are runs of dataset shown: {run}")
    api.delete(f"/runs/{run}")
    remove.click()
    page.get_by_role("button", name="Remove shown").click()
    page.wait_for_url("**/datasets")
    expect(page.locator("#datasets")).not_to_contain_text("shown")
    assert (place / "apple" / "0000.jpg").exists()


def test_what_could_not_be_scanned_can_be_registered_again(
    page: Page, api: Client, scratch: Path
) -> None:
    place = scratch / "hollow"
    (place / "class").mkdir(parents=True)
    api.post("/datasets", {"uri": str(place), "name": "hollow"})
    page.goto("/datasets/hollow")
    expect(page.locator("#state")).to_have_text("failed")
    expect(page.get_by_role("alert")).not_to_be_empty()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.get_by_role("button", name="Remove hollow").click()
    page.wait_for_url(re.compile(r"/datasets\?"))
    expect(page.get_by_label("place on the server")).to_have_value(str(place))
    expect(page.get_by_label("name")).to_have_value("hollow")
    shutil.rmtree(place)


def test_a_folder_is_allowed_and_removed_on_the_page(
    page: Page, api: Client, tmp_path: Path
) -> None:
    pets = make_images(tmp_path / "drive" / "pets", 12)
    folder = str(pets.parent)
    page.goto("/datasets")
    place, told = page.get_by_label("place on the server"), page.locator("#told")
    place.fill(str(pets))
    expect(told).to_contain_text("not below an allowed folder")
    allow = page.get_by_role("button", name="Allow folder")
    field = page.get_by_label("folder on the server")
    field.fill(f"{folder}/nothing")
    allow.click()
    expect(page.locator("#allowed .problem")).to_contain_text("nothing does not exist")
    field.fill(folder)
    allow.click()
    expect(page.locator("#notices")).to_contain_text(f"Datasets below {folder} can be registered")
    row = page.locator("#folders tr", has_text=folder)
    expect(row).to_contain_text("available")
    expect(field).to_have_value("")
    expect(page.locator("#allowed .problem")).to_be_empty()
    expect(place).to_have_value(str(pets))
    expect(told).to_contain_text("one subfolder of images a class")
    page.get_by_role("button", name="Register and scan").click()
    page.wait_for_url("**/datasets/pets")
    expect(page.locator("#state")).to_have_text("ready")
    page.goto("/datasets")
    remove = row.get_by_role("button", name="Remove")
    remove.click()
    expect(page.locator("#confirm")).to_contain_text("not scanned again: pets.")
    page.get_by_role("button", name="Keep it").click()
    assert [entry["path"] for entry in api.get("/roots")].count(folder) == 1
    remove.click()
    page.get_by_role("button", name="Remove folder").click()
    expect(row).to_have_count(0)
    assert folder not in [entry["path"] for entry in api.get("/roots")]
    expect(page.locator("#datasets")).to_contain_text("pets")
    api.delete("/datasets/pets")


def test_a_folder_of_the_settings_cannot_be_removed_on_the_page(page: Page, scratch: Path) -> None:
    page.goto("/datasets")
    row = page.locator("#folders tr", has_text=str(scratch))
    expect(row).to_contain_text("from settings")
    expect(row.get_by_role("button")).to_have_count(0)


def test_an_address_is_not_taken_for_a_place(page: Page) -> None:
    page.goto("/datasets")
    page.get_by_label("place on the server").fill("s3://bucket/x")
    expect(page.locator("#told")).to_contain_text("s3://bucket/x is an address, not a folder")


def test_a_dataset_is_rescanned_with_a_button(page: Page, api: Client, scratch: Path) -> None:
    place = make_images(scratch / "changing", 30)
    add_dataset(api, place, "changing")
    page.goto("/datasets/changing")
    rescan = page.get_by_role("button", name="Rescan")
    rescan.click()
    expect(page.locator("#rescanned")).to_contain_text("nothing has changed")
    (place / "apple" / "0000.jpg").unlink()
    rescan.click()
    expect(page.locator("#rescanned")).to_contain_text("made a new version")
    expect(page.locator(".tiles")).to_contain_text("29")
    place.rename(scratch / "elsewhere")
    rescan.click()
    expect(page.locator("#rescanned")).to_contain_text("does not exist")
    expect(page.locator("#state")).to_have_text("ready")
    api.delete("/datasets/changing")
    shutil.rmtree(scratch / "elsewhere")
