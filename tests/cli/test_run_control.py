"""Runs tried again, limited and cancelled together, on the command line and over HTTP."""

import json
from typing import Any

import pytest

from ddlp.core.client import Client
from ddlp.core.errors import Conflict, InvalidInput, NotFound
from ddlp.core.exit_codes import ExitCode
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.trainer import new_run, train


def cancelled(api: Client, **fields: Any) -> str:
    run = new_run(api, **fields)
    api.post(f"/runs/{run}/cancel")
    return run


def test_a_cancelled_run_is_tried_again_and_trained(up: UpProcess, api: Client) -> None:
    old = cancelled(api, cpu_window=6)
    again = json.loads(ddlp("run", "retry", old, "--json", url=up.url).stdout)
    before = api.get(f"/runs/{old}")
    assert (again["name"], again["retry_of"]) == (f"{old}-2", before["id"])
    assert again["limits"]["own"] == ["cpu_window"]
    assert before["state"] == "cancelled"
    train(up, again["name"])
    wait_until(lambda: api.get(f"/runs/{again['name']}")["state"] == "completed")
    proof = api.get(f"/runs/{again['name']}/verify")
    assert (proof["exactly_once"], proof["next"], proof["problems"]) == (True, None, {})
    refused = ddlp("run", "retry", again["name"], url=up.url)
    assert refused.returncode == ExitCode.REFUSED
    assert "was completed" in refused.stderr
    with pytest.raises(NotFound, match="there is no run nobody"):
        api.post("/runs/nobody/retry", {}, once=True)


def test_limits_are_shown_and_changed_while_a_run_works(up: UpProcess, api: Client) -> None:
    run = new_run(api)
    changed = json.loads(
        ddlp("run", "limits", run, "--cpu-window", "5", "--json", url=up.url).stdout
    )
    assert (changed["cpu_window"], changed["own"]) == (5, ["cpu_window"])
    assert changed["batches"]["cpu"] == 5
    shown = ddlp("run", "limits", run, url=up.url).stdout
    assert "own              cpu_window" in shown
    assert json.loads(ddlp("run", "limits", run, "--json", url=up.url).stdout) == changed
    assert api.get(f"/runs/{run}")["limits"] == {k: v for k, v in changed.items() if k != "name"}
    wrong = ddlp("run", "limits", run, "--csd-store-bytes", "5", url=up.url)
    assert wrong.returncode == 2
    assert "csd_store_bytes" in wrong.stderr
    with pytest.raises(InvalidInput, match="give at least one of"):
        api.post(f"/runs/{run}/limits", {})
    api.post(f"/runs/{run}/cancel")
    with pytest.raises(Conflict, match="is over; its limits stay as they were"):
        api.post(f"/runs/{run}/limits", {"cpu_window": 4})


def test_a_run_is_made_with_limits(up: UpProcess, api: Client) -> None:
    options = ("--batch-size", "8", "--pipeline", "small", "--cpu-store-bytes", str(1 << 21))
    made = json.loads(ddlp("run", "create", "fruit", *options, "--json", url=up.url).stdout)
    api.post(f"/runs/{made['name']}/cancel")
    limits = made["limits"]
    assert limits["own"] == ["cpu_store_bytes"]
    assert limits["batches"]["cpu"] == int(0.9 * (1 << 21)) // limits["batch_bytes"]


def test_runs_are_cancelled_together_and_each_is_told(up: UpProcess, api: Client) -> None:
    first, second, over = new_run(api), new_run(api), cancelled(api)
    answer = ddlp("run", "cancel", first, second, over, "nobody", "--json", url=up.url)
    found = json.loads(answer.stdout)
    assert answer.returncode == ExitCode.REFUSED
    assert [entry["cancelled"] for entry in found] == [True, True, False, False]
    assert [entry["run"] for entry in found] == [first, second, over, "nobody"]
    assert found[2]["reason"] == f"run {over} is cancelled; it cannot become cancelled"
    assert "there is no run nobody" in found[3]["reason"]
    assert {api.get(f"/runs/{run}")["state"] for run in (first, second)} == {"cancelled"}
    third = new_run(api)
    assert api.post("/runs/cancel", {"runs": [third, third]}) == [
        {"run": third, "cancelled": True, "reason": None}
    ]
    for wrong in ([], ["x"] * 201):
        with pytest.raises(InvalidInput, match="runs: "):
            api.post("/runs/cancel", {"runs": wrong})
