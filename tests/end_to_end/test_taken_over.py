"""A job is cancelled, or comes to its end, and goes on: in a new run, or with more epochs."""

from typing import Any

import pytest

from ddlp.core.client import Client
from ddlp.core.errors import InvalidInput
from ddlp.loader import DualLoader
from tests.conftest import SMALL_PIPELINE, UpProcess, wait_until
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import new_run
from tests.loops import Got, Loop, counts

STEPS = 6


def state_of(client: Client, run: str) -> str:
    return str(client.get(f"/runs/{run}")["state"])


def new_pipeline(client: Client) -> str:
    """One that differs from the small one in its last step only."""
    transforms = [*SMALL_PIPELINE["transforms"][:-1], {"name": "normalize", "early": True}]
    client.post("/pipelines", {"name": "early", "transforms": transforms})
    return "early"


def proof_of(client: Client, run: str) -> dict[str, Any]:
    wait_until(lambda: state_of(client, run) == "completed")
    proof: dict[str, Any] = client.get(f"/runs/{run}/verify")
    return proof


def begun(up: UpProcess, run: str) -> tuple[list[Got], dict[str, Any]]:
    """Train a few steps in a process that is then killed: what it received, and its checkpoint."""
    with Loop() as loop:
        loop.open(run=run, url=up.url)
        received = loop.take(STEPS)
        state = loop.state()
        loop.take(2)  # trained beyond the checkpoint, and lost
        loop.kill()
    return received, state


@pytest.mark.parametrize("way", ["retry", "clone"])
def test_a_state_of_a_cancelled_run_goes_on_in_the_middle_of_the_epoch_in_a_new_run(
    up: UpProcess, api: Client, way: str
) -> None:
    old = new_run(api, world_size=None, epochs=2)
    before, state = begun(up, old)
    api.post(f"/runs/{old}/cancel", {})
    new = api.post(f"/runs/{old}/{way}", {})["name"]
    with Loop() as loop:
        assert loop.open(run=new, url=up.url).epoch == 0
        loop.ask("load", state)
        after = loop.take()
        assert loop.stand().epoch == 1
        assert counts(loop.take()) == ONCE
    assert counts(before + after) == ONCE
    assert {got.epoch for got in after} == {0}
    proof = proof_of(api, new)
    assert proof["problems"] == {}
    assert (proof["exactly_once"], proof["unbroken"], proof["missing"]) == (True, True, [])
    [origin] = proof["taken_over"]
    assert old in origin
    assert state_of(api, old) == "cancelled"
    certificate = api.get(f"/runs/{new}/epochs/0/certificate")
    assert certificate["origin"]["position"] == STEPS


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"seed": 5}, "seed 0, not 5"),
        ({"batch_size": 4}, "batch_size 8, not 4"),
        ({"pipeline": "plain"}, "pipeline '"),
        ({"reshuffle": False}, "reshuffle True, not False"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_state_of_another_kind_of_run_is_refused_with_what_differs(
    up: UpProcess, api: Client, other: dict[str, Any], differs: str
) -> None:
    if "pipeline" in other:
        other = {"pipeline": new_pipeline(api), "reshuffle": True}
    with DualLoader(new_run(api, world_size=None), up.url) as loader:
        state = loader.state_dict()
    with DualLoader(new_run(api, world_size=None, **other), up.url) as loader:
        with pytest.raises(InvalidInput, match=f"does not fit this run: it is of {differs}"):
            loader.load_state_dict(state)
        assert sum(len(labels) for _, labels in loader) == 123, "and nothing has changed"


def test_the_epoch_after_the_last_one_is_one_more(up: UpProcess, api: Client) -> None:
    run = new_run(api, world_size=None)
    with Loop() as loop:
        loop.open(run=run, url=up.url)
        assert counts(loop.take()) == ONCE
        wait_until(lambda: state_of(api, run) == "completed")
        loop.ask("set_epoch", 1)
        assert counts(loop.take()) == ONCE
        assert loop.stand().epochs == 2
        with pytest.raises(InvalidInput, match="epoch 4 is not one of the run's 2"):
            loop.ask("set_epoch", 4)
    proof = proof_of(api, run)
    assert (proof["epochs"], proof["exactly_once"], proof["unbroken"]) == (2, True, True)


@pytest.mark.parametrize("loads", [True, False], ids=["with its state", "without"])
def test_a_process_that_comes_after_the_end_of_a_run_can_train_one_epoch_more(
    up: UpProcess, api: Client, loads: bool
) -> None:
    run = new_run(api, world_size=None)
    with Loop() as loop:
        loop.open(run=run, url=up.url)
        assert counts(loop.take()) == ONCE
        state = loop.state()
    wait_until(lambda: state_of(api, run) == "completed")
    with Loop() as loop:
        assert loop.open(run=run, url=up.url).epoch == 1
        if loads:
            loop.ask("load", state)
        loop.ask("set_epoch", 1)
        assert counts(loop.take()) == ONCE
    proof = proof_of(api, run)
    assert (proof["epochs"], proof["exactly_once"], proof["unbroken"]) == (2, True, loads)


def test_a_run_that_its_trainer_left_is_paused_and_goes_on_with_the_next_one(
    up: UpProcess, api: Client
) -> None:
    run = new_run(api, world_size=None)
    with Loop() as loop:
        loop.open(run=run, url=up.url)
        before = loop.take(STEPS)
        state = loop.state()
    wait_until(lambda: state_of(api, run) == "paused")
    assert "no trainer is connected" in api.get(f"/runs/{run}")["reason"]
    with Loop() as loop:
        loop.open(run=run, url=up.url)
        wait_until(lambda: state_of(api, run) == "running")
        loop.ask("load", state)
        assert counts(before + loop.take()) == ONCE
    assert proof_of(api, run)["unbroken"] is True
