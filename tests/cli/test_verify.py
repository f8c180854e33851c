"""The proof on the command line: from a server, or from a file that was kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from ddlp.cli.verify import collect, read
from ddlp.core.client import Client
from ddlp.core.errors import InvalidInput
from ddlp.core.exit_codes import ExitCode
from ddlp.core.proof import check
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.trainer import new_run, train


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": "ddlp-certificates-1"}', '{"format": "other", "run": {}}', "null"],
)
def test_a_file_without_certificates_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kept.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"kept\.json"):
        read(path)


# Against a server


def finished(up: UpProcess, api: Client, **fields: Any) -> str:
    """A run that was trained to its end, with its certificates sealed."""
    run = new_run(api, **fields)
    train(up, run)
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    return run


def test_certificates_that_were_kept_prove_the_run_anywhere(
    up: UpProcess, api: Client, tmp_path: Path
) -> None:
    run = finished(up, api, epochs=2)
    kept = tmp_path / "kept.json"
    assert ddlp("certificate", run, "--out", str(kept), url=up.url).returncode == 0
    assert json.loads(ddlp("certificate", run, "--json", url=up.url).stdout) == json.loads(
        kept.read_text()
    )
    nowhere = "http://127.0.0.1:1"
    proved = ddlp("verify", str(kept), "--json", url=nowhere)
    assert proved.returncode == 0, proved.stderr
    assert json.loads(proved.stdout)["exactly_once"]
    said = json.loads(kept.read_text())
    said["certificates"][1]["makers"][0]["device"] = "someone else"
    kept.write_text(json.dumps(said))
    changed = ddlp("verify", str(kept), url=nowhere)
    assert changed.returncode == ExitCode.FAILED_CHECK
    assert "its digest does not fit its content" in changed.stdout


def test_what_the_server_keeps_is_what_was_proved(up: UpProcess, api: Client) -> None:
    run = finished(up, api)
    first, second = collect(api, run), collect(api, run)
    assert first == second
    assert check(first)["exactly_once"]
    assert first["certificates"][0]["state"] == "complete"


def test_a_replay_delivers_the_batches_in_the_same_order(up: UpProcess, api: Client) -> None:
    run = new_run(api, strategy="wrr", epochs=2)
    original = train(up, run)
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    wait_until(lambda: ddlp("replay", run, "--name", f"{run}-again", url=up.url).returncode == 0)
    again = train(up, f"{run}-again")
    assert [epoch.order for epoch in again] == [epoch.order for epoch in original]
    assert [epoch.pixels for epoch in again] == [epoch.pixels for epoch in original]
    shown = json.loads(ddlp("run", "show", f"{run}-again", "--json", url=up.url).stdout)
    assert shown["strategy"] == "replay"
    assert shown["replay_of"] == api.get(f"/runs/{run}")["id"]


def test_a_run_that_is_not_over_cannot_be_replayed(up: UpProcess, api: Client) -> None:
    run = new_run(api)
    answer = ddlp("replay", run, url=up.url)
    assert answer.returncode == ExitCode.REFUSED
    assert "only one whose epochs are all complete can be replayed" in answer.stderr
    api.post(f"/runs/{run}/cancel")


def test_a_run_goes_on_with_another_strategy_and_stays_exact(up: UpProcess, api: Client) -> None:
    run = new_run(api, strategy="wrr", batch_size=4)

    def switch(step: int) -> None:
        if step == 9:
            answer = ddlp("run", "strategy", run, "bounded", "--reorder-window", "2", url=up.url)
            assert answer.stdout.split() == ["name", run, "strategy", "bounded"]

    [epoch] = train(up, run, switch)
    assert sorted(epoch.order) == list(range(31))
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    assert ddlp("verify", run, url=up.url).returncode == 0
    assert api.get(f"/runs/{run}")["reorder_window"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fastest"], "no strategy 'fastest'"),
        (["replay"], "no strategy 'replay'"),
        (["wrr", "--reorder-window", "1"], "does not fit strategy wrr"),
    ],
)
def test_a_strategy_that_makes_no_sense_changes_nothing(
    up: UpProcess, api: Client, arguments: list[str], message: str
) -> None:
    run = new_run(api, strategy="mte")
    answer = ddlp("run", "strategy", run, *arguments, url=up.url)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert api.get(f"/runs/{run}")["strategy"] == "mte"
    api.post(f"/runs/{run}/cancel")
