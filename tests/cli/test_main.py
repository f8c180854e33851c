"""The commands against a running server: what they print, and how they fail."""

import json
from pathlib import Path

import pytest

from ddlp.core.client import Client
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.trainer import new_run, train


def test_a_dataset_is_added_listed_and_shown(up: UpProcess, images: Path) -> None:
    added = ddlp("dataset", "add", str(images), "--name", "again", "--json", url=up.url)
    assert json.loads(added.stdout)["samples"] == 123
    assert "again" in ddlp("dataset", "list", url=up.url).stdout
    shown = json.loads(ddlp("dataset", "show", "again", "--json", url=up.url).stdout)
    assert shown["classes"] == ["apple", "pear", "plum"]
    twice = ddlp("dataset", "add", str(images), "--name", "again", url=up.url)
    assert twice.returncode == 1
    assert twice.stderr == "ddlp: there is a dataset again already; choose another name\n"


def test_a_run_is_created_paused_resumed_watched_and_verified(up: UpProcess, api: Client) -> None:
    made = ddlp(
        "run", "create", "fruit", "--pipeline", "small", "--batch-size", "8", "--json", url=up.url
    )
    run = json.loads(made.stdout)["name"]
    assert "paused" in ddlp("run", "pause", run, url=up.url).stdout
    assert "running" in ddlp("run", "resume", run, url=up.url).stdout
    unfinished = ddlp("verify", run, url=up.url)
    assert unfinished.returncode == 1
    train(up, run)
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    watched = ddlp("run", "watch", run, url=up.url)
    assert (watched.stdout, watched.returncode) == ("completed\n", 0)
    assert ddlp("verify", run, url=up.url).returncode == 0
    assert run in ddlp("run", "list", url=up.url).stdout
    shown = json.loads(ddlp("run", "show", run, "--json", url=up.url).stdout)
    assert shown["epochs_seen"][0]["consumed"] == 16


def test_watching_a_run_follows_it_to_its_end(up: UpProcess, api: Client) -> None:
    run = new_run(api)
    api.post(f"/runs/{run}/cancel")
    watched = ddlp("run", "watch", run, "--json", url=up.url)
    last = json.loads(watched.stdout.splitlines()[-1])
    assert last == {"event": "end", "state": "cancelled", "reason": None}
    assert watched.returncode == 1, "only a completed run is a success"


def test_as_many_runs_are_listed_as_asked_for(up: UpProcess, api: Client) -> None:
    for _ in range(2):
        api.post(f"/runs/{new_run(api)}/cancel")
    assert len(json.loads(ddlp("run", "list", "--limit", "1", "--json", url=up.url).stdout)) == 1
    assert ddlp("run", "list", "--limit", "201", url=up.url).returncode == 2


def test_a_pipeline_is_added_and_listed(up: UpProcess, tmp_path: Path) -> None:
    file = tmp_path / "tiny.json"
    file.write_text('[{"name": "random-resized-crop", "size": 24}, {"name": "normalize"}]')
    added = json.loads(ddlp("pipeline", "add", "tiny", str(file), "--json", url=up.url).stdout)
    assert (added["width"], added["height"]) == (24, 24)
    assert ddlp("pipeline", "add", "tiny", str(file), url=up.url).returncode == 0
    assert "tiny" in ddlp("pipeline", "list", url=up.url).stdout
    listed = json.loads(ddlp("pipeline", "list", "--json", url=up.url).stdout)
    assert added in listed


def test_a_pipeline_that_makes_no_sense_gets_one_line(up: UpProcess, tmp_path: Path) -> None:
    file = tmp_path / "magic.json"
    file.write_text('[{"name": "magic"}]')
    answer = ddlp("pipeline", "add", "magic", str(file), url=up.url)
    assert answer.returncode == 2
    assert "magic" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_devices_are_listed(up: UpProcess) -> None:
    head, *rows = ddlp("device", "list", url=up.url).stdout.splitlines()
    assert head.split() == ["name", "prong", "kind", "emulated", "slots", "live"]
    assert ["csd0", "csd", "emulated-csd", "True", "1", "True"] in [row.split() for row in rows]
    devices = json.loads(ddlp("device", "list", "--json", url=up.url).stdout)
    assert {device["prong"] for device in devices} == {"cpu", "csd"}


def test_the_server_of_a_home_folder_is_found_by_itself(up: UpProcess) -> None:
    assert ddlp("dataset", "list", home=str(up.home)).returncode == 0


def test_the_doctor_answers_everywhere(up: UpProcess, tmp_path: Path) -> None:
    ill = ddlp("doctor", home=str(tmp_path), url="http://127.0.0.1:1")
    assert ill.returncode == 0
    assert "ddlp up" in ill.stdout
    well = json.loads(ddlp("doctor", "--json", home=str(up.home)).stdout)
    assert f"up at {up.url}" in well["server"]
    assert "csd0" in well["server"]
    assert "emulated" in well["csd"]


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("missing", "does not exist"),
        ("empty", "holds no images"),
        ("texts", "holds no images"),
        ("unreadable", "cannot be read"),
        ("outside", "is not below a folder that was allowed"),
    ],
)
def test_a_folder_that_cannot_be_used_gets_one_line_and_leaves_nothing(
    up: UpProcess, api: Client, scratch: Path, case: str, message: str
) -> None:
    place = scratch / f"bad-{case}"
    if case == "outside":
        place = scratch.parent
    elif case != "missing":
        inside = folder(place / "class")
        if case == "texts":
            (inside / "notes.txt").write_text("no image")
        if case == "unreadable":
            (inside / "gone.jpg").symlink_to(inside / "nowhere.jpg")
    known, indexes = api.get("/datasets"), sorted((up.home / "indexes").iterdir())
    answer = ddlp("dataset", "add", str(place), "--name", f"bad-{case}", url=up.url)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert api.get("/datasets") == known
    assert sorted((up.home / "indexes").iterdir()) == indexes


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--strategy", "fastest", "no strategy 'fastest'; choose one of mte, wrr, cpu, csd"),
        ("--batch-size", "0", "batch_size: Input should be greater than or equal to 1"),
        ("--batch-size", "124", "batch size 124 is larger than dataset fruit (123 samples)"),
        ("--pipeline", "magic", "no pipeline magic; known: imagenet-train"),
        ("--epochs", "0", "epochs: Input should be greater than or equal to 1"),
        ("--world-size", "50", "50 ranks cannot share"),
        ("--name", "../etc", "name: String should match pattern"),
    ],
)
def test_a_run_that_makes_no_sense_gets_one_line_and_leaves_nothing(
    up: UpProcess, api: Client, option: str, value: str, message: str
) -> None:
    before = [run["name"] for run in api.get("/runs?limit=200")]
    answer = ddlp("run", "create", "fruit", option, value, url=up.url)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert [run["name"] for run in api.get("/runs?limit=200")] == before


def test_what_does_not_exist_is_said_not_to(up: UpProcess) -> None:
    answer = ddlp("run", "show", "nothing", url=up.url)
    assert answer.returncode == 2
    assert answer.stderr == "ddlp: there is no run nothing; see: ddlp run list\n"
