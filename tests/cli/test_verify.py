"""A run is verified from its certificates alone: each of them, and that they form a chain."""

import json
from pathlib import Path
from typing import Any

import pytest

from ddlp.cli.verify import check, collect, read
from ddlp.core.certificate import OF_THE_RUN, seal
from ddlp.core.client import Client
from ddlp.core.errors import InvalidInput
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, wait_until
from tests.core.certificates import body
from tests.core.test_certificate_exceptions import bad, held
from tests.end_to_end.trainer import new_run, train


def run_of(epochs: int = 3, **changes: Any) -> dict[str, Any]:
    """A run of which each epoch went well, as it is given out."""
    certificates: list[dict[str, Any]] = []
    said = body(**changes)
    for number in range(epochs):
        previous = certificates[-1]["digest"] if certificates else said["previous"]
        sealed = seal({**body(**changes), "epoch": number, "previous": previous})
        certificates.append(sealed.model_dump(mode="json"))
    facts = {name: said[name] for name in OF_THE_RUN}
    run = {"id": said["run"], "name": "fruit-1", "epochs": epochs, **facts}
    return {"format": "ddlp-certificates-1", "run": run, "certificates": certificates}


def test_a_run_whose_epochs_are_good_and_chained_is_proved() -> None:
    assert check(run_of()) == {
        "run": "fruit-1",
        "epochs": 3,
        "samples": 46,
        "exactly_once": True,
        "problems": {},
        "bad": {},
        "repeated": 0,
        "dropped": 0,
    }


def test_the_storage_form_must_be_the_runs_where_both_are_known() -> None:
    found = run_of()
    for storage, problems in ((None, 0), ("folder", 0), ("packed", 3)):
        found["run"]["storage"] = storage
        assert len(check(found)["problems"]) == problems
    assert check(found)["problems"]["epoch 0"] == ["it is of storage folder, not packed"]


def test_what_the_tail_policy_did_is_added_up() -> None:
    assert check(run_of(2, order="4h", tail="drop"))["dropped"] == 12
    assert check(run_of(2, order="6h", tail="pad"))["repeated"] == 28


def test_an_epoch_that_was_not_begun_is_missed() -> None:
    found = run_of()
    found["certificates"].pop()
    assert check(found)["problems"] == {"run": ["2 of 3 epochs were begun"]}


def test_an_epoch_in_the_place_of_another_breaks_the_chain() -> None:
    found = run_of()
    first, second, third = found["certificates"]
    found["certificates"] = [first, third, second]
    problems = check(found)["problems"]
    assert problems["epoch 1"] == [
        "it is of epoch 2, not 1",
        "it is not chained to the one before it",
    ]
    assert "it is of epoch 1, not 2" in problems["epoch 2"]


def test_an_epoch_of_another_record_of_the_same_run_breaks_the_chain() -> None:
    found, other = run_of(), run_of(order="6h")
    found["certificates"][1] = other["certificates"][1]
    problems = check(found)["problems"]
    assert problems == {
        "epoch 1": ["it is not chained to the one before it"],
        "epoch 2": ["it is not chained to the one before it"],
    }


@pytest.mark.parametrize("name", [*OF_THE_RUN, "id"])
def test_certificates_of_another_run_are_found(name: str) -> None:
    found = run_of()
    other = {"tail": "pad", "on_bad": "skip", "id": "00000000-0000-0000-0000-000000000009"}
    found["run"][name] = other.get(name, 5 if isinstance(found["run"][name], int) else "f" * 64)
    problems = check(found)["problems"]
    shown = "run" if name == "id" else name
    assert all(f"it is of {shown} " in problems[f"epoch {n}"][0] for n in range(3))
    assert "it is not chained to the one before it" in problems["epoch 0"]


def test_a_changed_certificate_is_found_and_the_others_stay_good() -> None:
    found = run_of()
    found["certificates"][1]["strategy"] = "mte"
    assert check(found)["problems"] == {"epoch 1": ["its digest does not fit its content"]}


def test_an_epoch_that_is_not_exact_is_found() -> None:
    problems = check(run_of(1, order="4h1t"))["problems"]
    assert problems == {"epoch 0": ["not delivered (1): batch 4"]}


def test_what_is_no_certificate_is_said_to_be_none() -> None:
    found = run_of(1)
    del found["certificates"][0]["segments"]
    assert check(found)["problems"] == {"epoch 0": ["it is not a certificate: Field required"]}


def test_samples_that_were_skipped_are_named() -> None:
    found = check(run_of(1, on_bad="skip", bad=[bad(held(0))]))
    assert found["exactly_once"]
    [words] = found["bad"]["epoch 0"]
    assert words == f"sample {held(0)} (/data/{held(0)}.jpg) was skipped: truncated"


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
    assert changed.returncode == 1
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
    assert answer.returncode == 1
    assert "only one that was completed can be replayed" in answer.stderr
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
