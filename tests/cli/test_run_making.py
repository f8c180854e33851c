"""Runs are created, cloned, extended and deleted on the command line; people are told what next."""

import json
import os
import pty
import subprocess
import sys

import pytest

from ddlp.core.client import Client
from ddlp.core.errors import NotFound
from ddlp.core.exit_codes import ExitCode
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.trainer import new_run, train

CREATE = ("run", "create", "fruit", "--pipeline", "small", "--batch-size", "8")


def ended(api: Client, **fields: object) -> str:
    run = new_run(api, **fields)
    api.post(f"/runs/{run}/cancel")
    return run


def test_what_is_created_says_how_to_go_on(up: UpProcess, api: Client) -> None:
    told = ddlp(*CREATE, "--name", "paste-me", "--epochs", "2", url=up.url)
    line = f'DualLoader(run="paste-me", url="{up.url}", start=0)'
    assert told.stdout.splitlines() == [
        "run    paste-me",
        "does   2 epochs of 16 batches of 8 samples from fruit, strategy wrr",
        f"page   {up.url}/runs/paste-me",
        f"train  with {line} as loader:",
    ]
    again = json.loads(ddlp("run", "clone", "paste-me", "--json", url=up.url).stdout)
    assert again["code"] == line.replace("paste-me", again["name"])
    for run in ("paste-me", again["name"]):
        api.post(f"/runs/{run}/cancel")


@pytest.mark.parametrize(
    ("options", "epochs", "fixed", "reshuffle"),
    [
        ((), 1, False, True),
        (("--endless", "--no-reshuffle"), None, False, False),
        (("--epochs", "3", "--world-size", "2", "--reshuffle"), 3, True, True),
    ],
)
def test_epochs_ranks_and_order_are_optional(
    up: UpProcess,
    api: Client,
    options: tuple[str, ...],
    epochs: int | None,
    fixed: bool,
    reshuffle: bool,
) -> None:
    made = json.loads(ddlp(*CREATE, *options, "--json", url=up.url).stdout)
    assert (made["epochs"], made["fixed_ranks"], made["reshuffle"]) == (epochs, fixed, reshuffle)
    copy = json.loads(ddlp("run", "clone", made["name"], "--json", url=up.url).stdout)
    same = ("epochs", "fixed_ranks", "world_size", "reshuffle", "batch_size", "pipeline_hash")
    assert [copy[name] for name in same] == [made[name] for name in same]
    for run in (made, copy):
        api.post(f"/runs/{run['name']}/cancel")


def test_a_clone_differs_in_what_is_given(up: UpProcess, api: Client) -> None:
    run = ended(api, epochs=4, strategy="bounded", reorder_window=3)
    options = ("--strategy", "cpu", "--endless", "--on-bad", "skip", "--name", f"{run}-other")
    made = json.loads(ddlp("run", "clone", run, *options, "--json", url=up.url).stdout)
    found = (made["strategy"], made["reorder_window"], made["epochs"], made["on_bad"])
    assert found == ("cpu", None, None, "skip")
    assert (made["name"], made["batch_size"]) == (f"{run}-other", 8)
    api.post(f"/runs/{made['name']}/cancel")


def test_epochs_and_endless_exclude_each_other(up: UpProcess) -> None:
    answer = ddlp(*CREATE, "--epochs", "2", "--endless", url=up.url)
    assert answer.returncode == ExitCode.USAGE
    assert "--endless and --epochs 2 exclude each other" in answer.stderr


def test_a_completed_run_is_extended_and_trained_on(up: UpProcess, api: Client) -> None:
    run = new_run(api)
    train(up, run)
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    told = ddlp("run", "extend", run, "--epochs", "2", "--json", url=up.url)
    assert json.loads(told.stdout) == {"name": run, "state": "paused", "epochs": 2}
    less = ddlp("run", "extend", run, "--epochs", "2", url=up.url)
    assert less.returncode == ExitCode.USAGE
    assert f"run {run} has 2 epochs; 2 is not more" in less.stderr
    api.post(f"/runs/{run}/cancel")
    final = ddlp("run", "extend", run, "--epochs", "3", url=up.url)
    assert final.returncode == ExitCode.REFUSED


def test_a_run_is_deleted_once_it_is_over(up: UpProcess, api: Client) -> None:
    run = new_run(api)
    refused = ddlp("run", "delete", run, "--yes", url=up.url)
    assert refused.returncode == ExitCode.REFUSED
    assert f"ddlp run cancel {run}" in refused.stderr
    api.post(f"/runs/{run}/cancel")
    other = ended(api)
    unasked = ddlp("run", "delete", run, url=up.url)
    assert unasked.returncode == ExitCode.USAGE
    assert "say --yes" in unasked.stderr
    told = ddlp("run", "delete", run, other, "--yes", "--json", url=up.url)
    assert json.loads(told.stdout) == [{"deleted": run}, {"deleted": other}]
    with pytest.raises(NotFound):
        api.get(f"/runs/{run}")
    assert api.get(f"/audit?subject={run}")[0]["action"] == "run.delete"


@pytest.mark.parametrize(("answer", "gone"), [("n", False), ("y", True)])
def test_at_a_terminal_it_is_asked_first(
    up: UpProcess, api: Client, answer: str, gone: bool
) -> None:
    run = ended(api)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ddlp.cli", "run", "delete", run]
    environment = os.environ | {"DDLP_URL": up.url}
    process = subprocess.Popen(command, stdin=theirs, stderr=subprocess.PIPE, env=environment)
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    _, said = process.communicate(timeout=60)
    os.close(ours)
    assert f"Delete {run}" in said.decode()
    assert process.returncode == (ExitCode.OK if gone else ExitCode.FAILED)
    known = [entry["name"] for entry in api.get("/runs?limit=200")]
    assert (run in known) is not gone


def test_names_of_pipelines_and_datasets_are_deleted(up: UpProcess, api: Client) -> None:
    crop = [{"name": "centre-crop", "size": 16}]
    api.post("/pipelines", {"name": "brief", "transforms": crop})
    run = ended(api, pipeline="brief")
    refused = ddlp("pipeline", "delete", "brief", "--yes", url=up.url)
    assert refused.returncode == ExitCode.REFUSED
    assert run in refused.stderr
    assert ddlp("pipeline", "delete", "brief", "--yes", "--keep-runs", url=up.url).returncode == 0
    missing = ddlp("pipeline", "delete", "brief", "--yes", url=up.url)
    assert missing.returncode == ExitCode.NOT_FOUND
    used = ddlp("dataset", "delete", "fruit", "--yes", url=up.url)
    assert used.returncode == ExitCode.REFUSED


@pytest.mark.parametrize("arguments", [("--version",), ("-h",), ("run", "clone", "-h")])
def test_version_and_help_are_short_to_ask_for(arguments: tuple[str, ...]) -> None:
    told = ddlp(*arguments)
    assert told.returncode == 0
    assert ("ddlp 0." if "--version" in arguments else "Usage: ddlp") in told.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_are_completions_for_each_shell(shell: str) -> None:
    told = ddlp("completions", shell)
    assert told.returncode == 0
    assert f"complete_{shell}" in told.stdout


def test_completions_know_the_commands() -> None:
    asked = {"COMP_WORDS": "ddlp run ex", "COMP_CWORD": "2", "_DDLP_COMPLETE": "complete_bash"}
    command = [sys.executable, "-m", "ddlp.cli"]
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ | asked)
    assert found.stdout.split() == ["export", "extend"]


@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        (("run", "show", "nothing"), "NotFound", ExitCode.NOT_FOUND),
        (("run", "create", "fruit", "--epochs", "0"), "InvalidInput", ExitCode.USAGE),
        (("run", "list", "--limit", "x"), "USAGE", ExitCode.USAGE),
        (("run", "lst"), "USAGE", ExitCode.USAGE),
    ],
)
def test_errors_are_json_for_programs(
    up: UpProcess, arguments: tuple[str, ...], kind: str, code: ExitCode
) -> None:
    told = ddlp(*arguments, "--json", url=up.url)
    error = json.loads(told.stderr)["error"]
    assert (error["kind"], error["exit_code"], told.returncode) == (kind, code, code)
    assert error["message"]
    assert told.stdout == ""
