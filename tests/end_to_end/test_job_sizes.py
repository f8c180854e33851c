"""How many ranks a job has, against how many its run was created for or was begun with."""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ddlp.core.client import Client
from ddlp.core.errors import Conflict, InvalidInput
from ddlp.loader import DualLoader
from tests.conftest import UpProcess, wait_until
from tests.end_to_end import rank_script
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.test_ranks import join
from tests.end_to_end.test_torchrun import LOOPBACK
from tests.end_to_end.trainer import new_run
from tests.loops import Loop, counts, together

STEPS = 3


def torchrun(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the script as two ranks, which are told their places by the launcher alone."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    launcher = (sys.executable, "-m", "torch.distributed.run", *LOOPBACK, "--nproc-per-node=2")
    return subprocess.run(
        [*launcher, rank_script.__file__, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )


def received(folder: Path, epoch: int) -> Counter[int]:
    """What both ranks wrote down of an epoch."""
    found: Counter[int] = Counter()
    for rank in range(2):
        for line in (folder / str(rank)).read_text().splitlines():
            number, samples = json.loads(line)
            found.update(samples if number == epoch else ())
    return found


def test_two_ranks_on_a_run_of_one_end_with_both_numbers_before_they_train(
    up: UpProcess, api: Client, tmp_path: Path
) -> None:
    run = new_run(api, world_size=1)
    done = torchrun(run, up.url, tmp_path, str(STEPS))
    assert done.returncode != 0
    assert f"run {run} was created for 1 rank, and this job has 2" in done.stderr
    assert "start 1 of them, or create the run without --world-size" in done.stderr
    assert list(tmp_path.iterdir()) == [], "no rank came past its constructor"
    with Loop() as alone:
        alone.open(run=run, url=up.url)
        assert counts(alone.take()) == ONCE, "and the run is as it was"


def test_one_rank_on_a_run_of_two_is_refused_in_the_constructor(up: UpProcess, api: Client) -> None:
    run = new_run(api, world_size=2)
    with pytest.raises(InvalidInput, match="created for 2 ranks, and this job has 1; start 2"):
        DualLoader(run, up.url)


def test_a_run_of_any_size_is_begun_by_two_ranks_and_ended_by_one(
    up: UpProcess, api: Client, tmp_path: Path
) -> None:
    run = new_run(api, world_size=None, epochs=2)
    done = torchrun(run, up.url, tmp_path, str(STEPS))
    assert done.returncode == 0, done.stderr
    assert api.get(f"/runs/{run}")["world_size"] == 2
    assert received(tmp_path, 0) == ONCE
    with Loop() as alone:
        alone.open(run=run, url=up.url)
        alone.ask("load", json.loads((tmp_path / "state").read_text()))
        rest = alone.take()
    assert {got.epoch for got in rest} == {1}
    assert received(tmp_path, 1) + counts(rest) == ONCE
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    proof = api.get(f"/runs/{run}/verify")
    assert (proof["exactly_once"], proof["unbroken"], proof["problems"]) == (True, True, {})


def test_ranks_with_a_state_at_one_size_go_on_at_another_and_get_as_many_batches_each(
    up: UpProcess, api: Client
) -> None:
    run = new_run(api, world_size=None)
    with Loop() as alone:
        alone.open(run=run, url=up.url)
        before = alone.take(STEPS)
        state = alone.state()
    with Loop(0, 2) as first, Loop(1, 2) as second:
        together([first, second], "open", {"run": run, "url": up.url})
        together([first, second], "load", state)
        mine, other = together([first, second], "take", None)
    assert len(mine) == len(other)
    assert counts([*before, *mine, *other]) == ONCE


def test_the_epoch_of_a_loader_is_the_one_to_be_delivered_whatever_is_prepared(
    up: UpProcess, api: Client
) -> None:
    run = new_run(api, world_size=None, epochs=3, batch_size=30)

    def made(epoch: int) -> int:
        epochs = api.get(f"/runs/{run}/epochs")
        return sum(epochs[epoch]["made"].values()) if len(epochs) > epoch else 0

    with DualLoader(run, up.url, start=0) as loader:
        for epoch in range(3):
            assert loader.epoch == epoch
            for step, _ in enumerate(loader):
                assert loader.epoch == epoch
                if step == 0 and epoch < 2:
                    wait_until(lambda: made(epoch + 1))  # noqa: B023
                    assert loader.epoch == epoch
        assert loader.epoch == 3
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")


@contextmanager
def drained(client: Client) -> Iterator[None]:
    """Nothing is made for new runs meanwhile."""
    devices = [device["name"] for device in client.get("/devices")]
    for device in devices:
        client.post(f"/devices/{device}/drain", {})
    try:
        yield
    finally:
        for device in devices:
            client.post(f"/devices/{device}/resume", {})


def test_a_rank_that_loads_a_state_while_another_one_did_not_is_refused(
    up: UpProcess, api: Client
) -> None:
    """As where the checkpoint is on the first host only: both would wait for each other."""
    old = new_run(api, world_size=2, epochs=2)
    with Loop(0, 2) as first, Loop(1, 2) as second:
        together([first, second], "open", {"run": old, "url": up.url})
        together([first, second], "take", None)
        state = first.state()

    def train(loader: DualLoader) -> None:
        with suppress(Conflict):
            list(loader)

    with drained(api):
        new = new_run(api, world_size=2, epochs=2)
        with join(up, new, 0) as saved, join(up, new, 1) as forgotten:
            waiting = threading.Thread(target=train, args=(forgotten,))
            waiting.start()
            wait_until(lambda: "are drained" in (forgotten.waiting_for or ""))
            with pytest.raises(
                Conflict,
                match=r"rank 0 of run .* would go on at place 0 of epoch 1, but rank 1 of the same "
                "job went on at place 0 of epoch 0; all ranks must load the same state",
            ):
                saved.load_state_dict(state)
            forgotten.close()
            waiting.join(60)
