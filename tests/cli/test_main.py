"""The commands against a running server: what they print, and how they fail."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from ddlp.core.client import Client
from ddlp.core.exit_codes import ExitCode
from ddlp.core.pipeline import ENGINE
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, make_images, wait_until
from tests.end_to_end.trainer import new_run, train


def test_a_dataset_is_added_listed_and_shown(up: UpProcess, images: Path) -> None:
    added = ddlp("dataset", "add", str(images), "--name", "again", "--json", url=up.url)
    assert json.loads(added.stdout)["samples"] == 123
    assert "again" in ddlp("dataset", "list", url=up.url).stdout
    shown = json.loads(ddlp("dataset", "show", "again", "--json", url=up.url).stdout)
    assert shown["classes"] == ["apple", "pear", "plum"]
    twice = ddlp("dataset", "add", str(images), "--name", "again", url=up.url)
    assert twice.returncode == ExitCode.REFUSED
    assert twice.stderr == "ddlp: there is a dataset again already; choose another name\n"


def test_a_run_is_created_paused_resumed_watched_and_verified(up: UpProcess, api: Client) -> None:
    made = ddlp(
        "run", "create", "fruit", "--pipeline", "small", "--batch-size", "8", "--json", url=up.url
    )
    run = json.loads(made.stdout)["name"]
    assert "paused" in ddlp("run", "pause", run, url=up.url).stdout
    assert "running" in ddlp("run", "resume", run, url=up.url).stdout
    unfinished = ddlp("verify", run, url=up.url)
    assert unfinished.returncode == ExitCode.FAILED_CHECK
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
    assert watched.returncode == ExitCode.FAILED_CHECK, "only a completed run is a success"


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
    columns = ["name", "prong", "kind", "emulated", "slots", "engine", "store", "live", "health"]
    assert head.split() == [*columns, "clock_ahead_s", "dropped_messages"]
    store = f"file://{up.home}/csd"
    csd = ["csd0", "csd", "emulated-csd", "yes", "1", ENGINE, store, "yes", "live"]
    assert csd in [row.split()[: len(columns)] for row in rows]
    devices = json.loads(ddlp("device", "list", "--json", url=up.url).stdout)
    assert {device["prong"] for device in devices} == {"cpu", "csd"}


def test_a_device_is_drained_and_resumed_but_not_removed_while_it_lives(up: UpProcess) -> None:
    def health() -> str:
        devices = json.loads(ddlp("device", "list", "--json", url=up.url).stdout)
        return next(device["health"] for device in devices if device["name"] == "csd0")

    drained = ddlp("device", "drain", "csd0", "--json", url=up.url)
    assert json.loads(drained.stdout) == {"name": "csd0", "drained": True}
    assert health() == "drained"
    refused = ddlp("device", "remove", "csd0", url=up.url)
    assert refused.returncode != 0
    assert "device csd0 is alive" in refused.stderr
    assert ddlp("device", "resume", "csd0", url=up.url).returncode == 0
    assert health() == "live"


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
        ("outside", "with: ddlp roots add FOLDER"),
    ],
)
def test_a_place_that_cannot_be_used_gets_one_line_and_leaves_nothing(
    up: UpProcess, api: Client, scratch: Path, case: str, message: str
) -> None:
    place = scratch.parent if case == "outside" else scratch / "bad-missing"
    known = api.get("/datasets")
    answer = ddlp("dataset", "add", str(place), "--name", f"bad-{case}", url=up.url)
    assert answer.returncode == (ExitCode.DENIED if case == "outside" else ExitCode.USAGE)
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert api.get("/datasets") == known


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("empty", "holds no images"),
        ("texts", "holds no images"),
        ("unreadable", "no sample of"),
    ],
)
def test_a_scan_that_finds_nothing_gets_one_line_and_can_be_tried_again(
    up: UpProcess, api: Client, scratch: Path, images: Path, case: str, message: str
) -> None:
    inside = folder(scratch / f"bad-{case}" / "class")
    if case == "texts":
        (inside / "notes.txt").write_text("no image")
    if case == "unreadable":
        (inside / "gone.jpg").symlink_to(inside / "nowhere.jpg")
    indexes = sorted((up.home / "indexes").iterdir())
    command = ["dataset", "add", str(inside.parent), "--name", f"bad-{case}"]
    answer = ddlp(*command, url=up.url)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert sorted((up.home / "indexes").iterdir()) == indexes
    shown = api.get(f"/datasets/bad-{case}")
    assert shown["state"] == "failed"
    assert shown["reason"] in answer.stderr
    refused = ddlp("run", "create", f"bad-{case}", url=up.url)
    assert refused.stderr == f"ddlp: dataset bad-{case} is failed: {shown['reason']}\n"
    shutil.copy(next(images.glob("*/*.jpg")), inside)
    assert ddlp(*command, "--no-wait", url=up.url).returncode == 0
    wait_until(lambda: api.get(f"/datasets/bad-{case}")["state"] == "ready")
    assert ddlp("dataset", "delete", f"bad-{case}", "--yes", url=up.url).returncode == 0
    assert sorted((up.home / "indexes").iterdir()) == indexes


def test_what_a_scan_rejects_is_counted_and_listed(
    up: UpProcess, api: Client, scratch: Path
) -> None:
    place = make_images(scratch / "half", 6)
    (place / "pear" / "0001.jpg").write_bytes(b"nothing")
    added = ddlp("dataset", "add", str(place), "--check", "full", "--json", url=up.url)
    info = json.loads(added.stdout)
    assert (info["name"], info["state"], info["kind"]) == ("half", "ready", "folder")
    assert (info["samples"], info["rejected"], info["check"]) == (5, 1, "full")
    assert info["progress"]["done"] == 6
    listed = json.loads(ddlp("dataset", "rejected", "half", "--json", url=up.url).stdout)
    assert [entry["name"] for entry in listed] == [str(place / "pear" / "0001.jpg")]
    assert listed[0]["reason"]
    assert ddlp("dataset", "delete", "half", "--yes", url=up.url).returncode == 0


def test_a_dataset_that_a_run_needs_is_not_removed(up: UpProcess, api: Client) -> None:
    run = new_run(api)
    answer = ddlp("dataset", "delete", "fruit", "--yes", url=up.url)
    assert answer.returncode == ExitCode.REFUSED
    assert run in answer.stderr
    assert api.get("/datasets/fruit")["state"] == "ready"
    api.post(f"/runs/{run}/cancel")


def test_a_preview_says_what_chance_decides(up: UpProcess, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    command = ["dataset", "preview", "fruit", "--pipeline", "small", "--samples", "0,5,60"]
    shown = ddlp(*command, "--explain", "--out", str(sheet), url=up.url)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("random-resized-crop") == 3
    assert "apple/0000.jpg" in shown.stdout
    with Image.open(sheet) as image:
        assert image.size == (76, 76)
    again = ddlp(*command, "--explain", url=up.url)
    assert again.stdout == shown.stdout
    other = ddlp(*command, "--explain", "--seed", "1", url=up.url)
    assert other.stdout != shown.stdout
    asked = json.loads(ddlp(*command, "--json", url=up.url).stdout)
    assert [entry["sample"] for entry in asked] == [0, 5, 60]
    assert [entry["class_name"] for entry in asked] == ["apple", "apple", "pear"]
    assert [step["transform"] for step in asked[0]["steps"]][-1] == "flip"
    beyond = ddlp("dataset", "preview", "fruit", "--samples", "123", url=up.url)
    assert beyond.returncode == 2
    assert "numbers from 0 to 122" in beyond.stderr


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--strategy", "fastest", "choose one of mte, wrr, bounded, cpu, csd"),
        ("--batch-size", "0", "batch_size: Input should be greater than or equal to 1"),
        ("--batch-size", "124", "batch size 124 is larger than dataset fruit (123 samples)"),
        ("--pipeline", "magic", "no pipeline magic; known: imagenet-train"),
        ("--epochs", "0", "epochs: Input should be greater than or equal to 1"),
        ("--world-size", "124", "124 ranks cannot share 123 samples"),
        ("--reorder-window", "3", "a reorder window of 3 does not fit strategy wrr"),
        ("--calibration", "0", "calibration: Input should be greater than or equal to 1"),
        ("--name", "../etc", "name: String should match pattern"),
        ("--max-bad-share", "2", "max_bad_share: Input should be less than or equal to 1"),
    ],
)
def test_a_run_that_makes_no_sense_gets_one_line_and_leaves_nothing(
    up: UpProcess, api: Client, option: str, value: str, message: str
) -> None:
    before = [run["name"] for run in api.get("/runs?limit=200")]
    answer = ddlp("run", "create", "fruit", option, value, url=up.url)
    unknown = option == "--pipeline"
    assert answer.returncode == (ExitCode.NOT_FOUND if unknown else ExitCode.USAGE)
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert [run["name"] for run in api.get("/runs?limit=200")] == before


def test_what_does_not_exist_is_said_not_to(up: UpProcess) -> None:
    answer = ddlp("run", "show", "nothing", url=up.url)
    assert answer.returncode == ExitCode.NOT_FOUND
    assert answer.stderr == "ddlp: there is no run nothing; see: ddlp run list\n"


def test_splits_are_registered_each_by_itself(up: UpProcess, scratch: Path) -> None:
    root = scratch / "imagenet"
    for split in ("train", "val"):
        make_images(root / split, 6)
    (root / "train" / "readme.jpg").write_bytes(b"")
    refused = ddlp("dataset", "add", str(root), url=up.url)
    assert refused.returncode == 2
    assert f"ddlp dataset add {root}/train --name imagenet-train" in refused.stderr
    done = ddlp("dataset", "add", str(root), "--splits", url=up.url)
    assert done.returncode == 0, done.stderr
    assert "note: Images directly in" in done.stderr
    assert [line.split()[:3] for line in done.stdout.splitlines()[1:]] == [
        ["imagenet-train", "ready", "6"],
        ["imagenet-val", "ready", "6"],
    ]
    none = ddlp("dataset", "add", str(root / "val"), "--splits", url=up.url)
    assert "holds no splits" in none.stderr
