"""A trainer dies, is started twice, or stands still: who receives what, counted by the loops."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.client import Client
from ddlp.core.errors import Conflict
from ddlp.loader import DualLoader
from tests.conftest import UpProcess, add_fruit, wait_until
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import new_run
from tests.loops import Got, Loop, counts

BATCHES = 16
TAKEN = 5
ONE_AHEAD = {"prefetch": 1}
"""So that it is known what the server has heard of when a loop is killed."""


def consumed(client: Client, run: str) -> int:
    """Batches of the first epoch that the server knows to be used up."""
    epochs = client.get(f"/runs/{run}/epochs")
    return int(epochs[0]["consumed"]) if epochs else 0


def proof_of(client: Client, run: str) -> dict[str, Any]:
    """What verify says, once the run is over."""
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    proof: dict[str, Any] = client.get(f"/runs/{run}/verify")
    assert proof["problems"] == {}
    return proof


@pytest.fixture
def run(api: Client) -> str:
    return new_run(api, world_size=None, seed=3)


@pytest.fixture
def where(up: UpProcess, run: str) -> dict[str, Any]:
    """How a loop comes to the run."""
    return {"run": run, "url": up.url}


@pytest.fixture
def before(api: Client, run: str, where: dict[str, Any]) -> list[Got]:
    """What a process received that was then killed, without a checkpoint."""
    with Loop() as dying:
        dying.open(**where, **ONE_AHEAD)
        received = dying.take(TAKEN)
        wait_until(lambda: consumed(api, run) == TAKEN - 1)
        dying.kill()
    return received


def test_who_comes_after_a_kill_and_says_nothing_is_refused_at_its_first_batch(
    where: dict[str, Any], before: list[Got]
) -> None:
    with Loop() as again:
        again.open(**where)
        with pytest.raises(Conflict, match=r"under way \(epoch 0, step 4\)") as refused:
            again.take(1)
        for remedy in ("load_state_dict", "start=N", "set_epoch(N)", 'start="continue"'):
            assert remedy in str(refused.value)
        again.ask("set_epoch", 0)
        assert counts(again.take()) == ONCE, "it has heeded what it was told"


def test_who_takes_what_is_left_gets_exactly_that_and_the_proof_names_what_was_lost(
    api: Client, run: str, where: dict[str, Any], before: list[Got]
) -> None:
    with Loop() as again:
        again.open(**where, start="continue")
        rest = again.take()
    assert rest[0] == before[-1], "the batch that it died with was not finished"
    assert counts(before[:-1] + rest) == ONCE
    proof = proof_of(api, run)
    assert (proof["exactly_once"], proof["unbroken"]) == (True, False)
    [lost] = proof["lost"]["epoch 0"]
    assert f"between step 0 of epoch 0 (no checkpoint) and step {TAKEN - 1} of epoch 0" in lost


def test_who_begins_again_gets_everything_again_in_an_unbroken_line(
    api: Client, run: str, where: dict[str, Any], before: list[Got]
) -> None:
    with Loop() as again:
        again.open(**where, start=0)
        found = again.take()
    assert counts(found) == ONCE
    assert found[:TAKEN] == before
    proof = proof_of(api, run)
    assert (proof["exactly_once"], proof["unbroken"], proof["lost"]) == (True, True, {})


def test_who_has_received_nothing_takes_no_state_of_somebody_elses_place(
    where: dict[str, Any], before: list[Got]
) -> None:
    assert before
    with DualLoader(**where) as silent, pytest.raises(Conflict, match="has received nothing of it"):
        silent.state_dict()
    with DualLoader(**where, start=0) as again:
        state = again.state_dict()
    assert (state["epoch"], state["position"]) == (0, 0)


def test_who_comes_after_a_kill_can_still_load_a_state_first(
    api: Client, run: str, where: dict[str, Any]
) -> None:
    with Loop() as dying:
        dying.open(**where)
        before = dying.take(3)
        state = dying.state()
        dying.take(4)
        dying.kill()
    with Loop() as again:
        assert again.open(**where, start=0).epoch == 0
        again.ask("load", state)
        assert counts(before + again.take()) == ONCE
    proof = proof_of(api, run)
    assert (proof["exactly_once"], proof["unbroken"]) == (True, True)


def test_a_second_process_of_the_same_rank_is_refused_until_the_first_one_is_dead(
    where: dict[str, Any],
) -> None:
    with Loop() as first, Loop() as second:
        first.open(**where)
        received = first.take(TAKEN)
        with pytest.raises(Conflict, match=f"in use by process {first.pid} on .* and lives"):
            second.open(**where)
        assert counts(received + first.take()) == ONCE
    with Loop() as third:
        third.open(**where)
        with pytest.raises(Conflict, match=r"1 epochs of run .* were delivered"):
            third.take(1)


def test_the_rank_of_a_process_that_was_killed_on_this_host_is_free_at_once(
    where: dict[str, Any], before: list[Got]
) -> None:
    with Loop() as again:
        again.open(**where, start="continue")
        assert again.ask("said") == [], "it had to wait for nothing"
        assert counts(before[:-1] + again.take()) == ONCE


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Iterator[UpProcess]:
    """A stack that gives a silent trainer's rank away soon."""
    home = tmp_path_factory.mktemp("impatient")
    settings = {"cpu_workers": "1", "csd_devices": "0", "trainer_timeout_s": "3"}
    with UpProcess(home, [images], **settings) as running:
        add_fruit(running, images)
        yield running


def test_a_process_that_stood_still_while_another_took_its_rank_receives_nothing_more(
    impatient: UpProcess,
) -> None:
    with impatient.client() as client, Loop() as first, Loop() as second:
        run = new_run(client, world_size=None)
        first.open(run=run, url=impatient.url)
        received = first.take(TAKEN)
        first.stop()
        second.open(run=run, url=impatient.url, start="continue")
        assert re.search("in use by process .*; waiting for it to end", second.ask("said")[0])
        begun = second.take(1)
        first.go_on()
        with pytest.raises(Conflict, match="is held by another process now"):
            first.take(1)
        with pytest.raises(Conflict, match="is held by another process now"):
            first.take(1)
        rest = begun + second.take()
        twice = Counter(counts(received) + counts(rest)) - ONCE
        assert counts(received) + counts(rest) - twice == ONCE, "nothing is missing"
        assert set(twice) <= set(counts(received)), "what it had not said to be used up"
        proof = proof_of(client, run)
        assert (proof["exactly_once"], proof["unbroken"]) == (True, False)
