"""A file changes under a run: it is skipped and told, rescanned, and used by the next run only."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ddlp.core.client import Client
from ddlp.loader import DualLoader
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, add_dataset, make_images, wait_until
from tests.end_to_end.trainer import new_run, train

COUNT = 32


@pytest.fixture
def place(api: Client, scratch: Path, tmp_path: Path) -> Iterator[Path]:
    """A dataset of its folder's name, whose files may be changed."""
    root = make_images(scratch / tmp_path.name, COUNT)
    add_dataset(api, root, root.name)
    yield root
    for path in root.rglob("*.jpg"):
        path.unlink()


def make(client: Client, dataset: str, **fields: Any) -> str:
    return new_run(client, dataset=dataset, strategy="cpu", max_bad_share=0.5, **fields)


def test_a_run_ends_with_the_version_it_began_with_and_the_next_one_uses_the_new(
    up: UpProcess, api: Client, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    version = api.get(f"/datasets/{place.name}")["version"]
    run = make(api, place.name, epochs=2, cpu_window=1)
    changed = place / "plum" / "0002.jpg"
    with DualLoader(run=run, url=up.url, start=0) as loader, caplog.at_level(logging.WARNING):
        Image.new("RGB", (50, 50), "red").save(changed)
        first = sum(len(labels) for _, labels in loader)
        said = ddlp("dataset", "rescan", place.name, url=up.url)
        second = sum(len(labels) for _, labels in loader)
        bad = {entry.name: entry.reason for entry in loader.bad_samples}
    assert (first, second) == (COUNT - 1, COUNT - 1)
    assert bad[str(changed)].endswith(f"rescan the dataset with: ddlp dataset rescan {place.name}")
    assert f"ddlp dataset rescan {place.name}" in caplog.text
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    assert f"kept for its runs as {place.name}@{version[:8]}" in said.stdout
    assert api.get(f"/runs/{run}")["dataset_version"] == version
    assert api.get(f"/runs/{run}/epochs/1/certificate")["dataset_version"] == version
    assert ddlp("verify", run, url=up.url).returncode == 0
    picture = f"/datasets/{place.name}/samples/0/thumbnail?version={version[:12]}"
    assert api.download(picture)[:2] == b"\xff\xd8"

    new = make(api, place.name)
    [account] = train(up, new)
    assert sum(account.samples.values()) == COUNT
    assert api.get(f"/runs/{new}")["dataset_version"] != version
    assert api.get(f"/runs/{new}")["bad_samples"] == 0


def test_a_checkpoint_of_an_earlier_version_is_resumed_over_that_version(
    up: UpProcess, api: Client, place: Path
) -> None:
    run = make(api, place.name, epochs=1)
    version = api.get(f"/datasets/{place.name}")["version"]
    with DualLoader(run=run, url=up.url, start=0) as loader:
        next(iter(loader))
        state = loader.state_dict()
    (place / "plum" / "0002.jpg").unlink()
    ddlp("dataset", "rescan", place.name, url=up.url)
    other = make(api, place.name)
    with (
        DualLoader(run=other, url=up.url) as loader,
        pytest.raises(Exception, match=f"--dataset {place.name}@{version[:8]}"),
    ):
        loader.load_state_dict(state)
    same = make(api, f"{place.name}@{version[:8]}")
    with DualLoader(run=same, url=up.url) as loader:
        loader.load_state_dict(state)
        assert sum(len(labels) for _, labels in loader) == COUNT - 8 - 1


def test_a_place_that_is_gone_is_told_by_the_exit_code(
    up: UpProcess, api: Client, place: Path
) -> None:
    place.rename(place.with_name("gone"))
    done = ddlp("dataset", "rescan", place.name, url=up.url)
    place.with_name("gone").rename(place)
    assert done.returncode == 2
    assert f"dataset {place.name} stays as it was" in done.stderr
    assert "does not exist" in done.stderr
    assert api.get(f"/datasets/{place.name}")["state"] == "ready"
    assert "nothing changed" in ddlp("dataset", "rescan", place.name, url=up.url).stdout
