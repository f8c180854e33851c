"""Ranks that are slow, die and come back, while another one trains on."""

from collections import Counter

import pytest

from ddlp.core.client import Client
from ddlp.core.errors import WaitTimeout
from ddlp.loader import DualLoader
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import Account, new_run, take

EPOCHS = 3


def join(up: UpProcess, run: str, rank: int, wait_timeout_s: float | None = None) -> DualLoader:
    return DualLoader(run, up.url, rank=rank, world_size=2, wait_timeout_s=wait_timeout_s)


def epoch(loader: DualLoader) -> Counter[int]:
    account = Account()
    for batch in loader.batches():
        take(account, batch)
    return account.samples


def test_a_rank_waits_for_one_that_stopped_asking_and_says_so(up: UpProcess, api: Client) -> None:
    run = new_run(api, world_size=2, epochs=EPOCHS)
    with join(up, run, 0, wait_timeout_s=2) as quick:
        first = [epoch(quick), epoch(quick)]
        with pytest.raises(WaitTimeout, match="other ranks are still in an earlier one"):
            epoch(quick)
        with join(up, run, 1) as slow:
            second = [epoch(slow) for _ in range(EPOCHS)]
        first.append(epoch(quick))
    assert [mine + other for mine, other in zip(first, second, strict=True)] == [ONCE] * EPOCHS
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    for number in range(EPOCHS):
        assert api.get(f"/runs/{run}/epochs/{number}/certificate")["exactly_once"]


def test_a_rank_that_died_comes_back_as_another_process_and_goes_on(
    up: UpProcess, api: Client
) -> None:
    run = new_run(api, world_size=2)
    seen: Counter[int] = Counter()
    with join(up, run, 0) as other, join(up, run, 1) as dying:
        batches = dying.batches()
        for _ in range(3):
            seen.update(next(batches).samples.tolist())
        state = dying.state_dict()
        batches.close()
        seen += epoch(other)
    with join(up, run, 1) as again:
        again.load_state_dict(state)
        seen += epoch(again)
    assert seen == ONCE
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    assert api.get(f"/runs/{run}/epochs/0/certificate")["exactly_once"]
