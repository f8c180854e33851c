"""Allowed folders from the command line, and what is said of one when a server is started."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from ddlp.core.client import Client
from ddlp.core.exit_codes import ExitCode
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, make_images, wait_until

ADDRESS = "s3://bucket/x"
REFUSED = f"ddlp: {ADDRESS} is an address, not a folder"


@pytest.fixture
def more(tmp_path: Path) -> Path:
    """A folder of images that the shared server does not allow; with a space in its name."""
    make_images(tmp_path / "more images" / "pets", 6)
    return tmp_path / "more images"


def test_a_folder_is_allowed_listed_and_removed(up: UpProcess, api: Client, more: Path) -> None:
    refused = ddlp("dataset", "add", str(more / "pets"), url=up.url)
    assert refused.returncode == ExitCode.DENIED
    assert refused.stderr.endswith("allow one with: ddlp roots add FOLDER\n")
    added = ddlp("roots", "add", str(more), url=up.url)
    assert added.stdout == f"Datasets below {more} can be registered now.\n"
    assert ddlp("dataset", "add", str(more / "pets"), url=up.url).returncode == 0
    again = json.loads(ddlp("roots", "add", str(more), "--json", url=up.url).stdout)
    assert (again["datasets"], again["note"]) == (["pets"], f"{more} is allowed already.")
    [line] = [
        line
        for line in ddlp("roots", "list", url=up.url).stdout.splitlines()
        if line.startswith(str(more))
    ]
    assert line.split()[-2:] == ["available", "pets"]
    removed = ddlp("roots", "remove", str(more), url=up.url)
    assert "can be trained on, but not scanned again: pets." in removed.stdout
    gone = ddlp("roots", "remove", str(more), url=up.url)
    assert gone.returncode == ExitCode.NOT_FOUND
    audit = ddlp("audit", "--subject", str(more), "--json", url=up.url)
    assert [event["action"] for event in json.loads(audit.stdout)] == ["root.remove", "root.add"]
    api.delete("/datasets/pets")


def test_folders_of_the_settings_are_named_as_such(up: UpProcess, images: Path) -> None:
    listed = json.loads(ddlp("roots", "list", "--json", url=up.url).stdout)
    assert listed[0]["from_settings"]
    refused = ddlp("roots", "remove", str(images), url=up.url)
    assert refused.returncode == ExitCode.REFUSED
    assert f"restart the server without --allow {images}" in refused.stderr


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nothing", "nothing does not exist; create or mount it first"),
        ("file", "file is not a folder"),
        ("/", "/ would allow every file"),
    ],
)
def test_what_cannot_be_allowed_is_one_line(
    up: UpProcess, tmp_path: Path, place: str, message: str
) -> None:
    (tmp_path / "file").touch()
    answer = ddlp("roots", "add", str(tmp_path / place), url=up.url)
    assert answer.returncode == ExitCode.USAGE
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1
    started = ddlp("up", "--allow", str(tmp_path / place), home=str(tmp_path / "home"))
    assert started.returncode == ExitCode.USAGE
    assert message in started.stderr
    assert started.stderr.count("\n") == 1
    assert not (tmp_path / "home").exists()
    named = {"dataset_roots": str(tmp_path / place), "home": str(tmp_path / "home")}
    alone = ddlp("serve", redis_url="redis://127.0.0.1:1/0", port="0", **named)
    assert (alone.returncode, alone.stderr) == (started.returncode, started.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ("dataset", "add", ADDRESS),
        ("dataset", "pack", "fruit", "--into", ADDRESS),
        ("dataset", "pack", ADDRESS, "--local", "--into", "shards"),
        ("dataset", "pack", "fruit", "--local", "--into", ADDRESS),
        ("dataset", "unpack", "fruit", "--into", ADDRESS),
        ("dataset", "unpack", ADDRESS, "--into", "files"),
        ("roots", "add", ADDRESS),
        ("roots", "remove", ADDRESS),
        ("up", "--allow", ADDRESS),
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_an_address_is_not_made_into_a_path(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # No server is there: it is said before one is asked.
    answer = ddlp(*arguments, url="http://127.0.0.1:1", home=str(tmp_path / "home"))
    assert answer.returncode == ExitCode.USAGE
    assert answer.stderr.startswith(REFUSED)
    assert os.listdir(tmp_path) == []


@pytest.mark.long
def test_a_vanished_folder_keeps_no_server_from_starting(tmp_path: Path) -> None:
    home = tmp_path / "home"
    kept, gone, given = (tmp_path / name for name in ("kept", "gone", "given"))
    for folder in (kept, gone, given):
        folder.mkdir()
    with UpProcess(home, [given], cpu_workers="1", csd_devices="0") as running:
        for folder in (kept, gone):
            ddlp("roots", "add", str(folder), url=running.url)
    gone.rmdir()
    with UpProcess(home, [given], cpu_workers="1", csd_devices="0") as running:
        with running.client() as client:
            states = {entry["path"]: entry["state"] for entry in client.get("/roots")}
        assert states == {str(given): "available", str(gone): "missing", str(kept): "available"}
        # Nor does one of the settings, once it runs: its server is started again without it.
        shutil.rmtree(given)
        os.kill(running.children()["serve"], 9)
        time.sleep(0.2)
        with running.client() as client:
            wait_until(lambda: client.get("/roots")[0]["state"] == "missing", 30)
