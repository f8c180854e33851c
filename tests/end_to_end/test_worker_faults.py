"""Workers die at every moment of their work: the epoch is exact, and goes on within a lease."""

import time
from collections import Counter

import pytest

from ddlp.core.client import Client
from ddlp.core.schedule import Limits
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.conftest import Traps
from tests.end_to_end.harm import kill, once_at, pool
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import Account, new_run, train

RECOVERY_S = Limits().lease_floor_s + 2.0
SLACK_S = 5.0
"""What a busy machine may add."""
PRONGS = ("cpu", "csd")


def check_recovered(client: Client, run: str, account: Account) -> None:
    """All came once, soon, and nobody was blamed."""
    assert account.samples == ONCE
    assert account.longest_wait_s < RECOVERY_S + SLACK_S
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    certificate = client.get(f"/runs/{run}/epochs/0/certificate")
    assert certificate["exactly_once"]
    assert not certificate["isolated"]


@pytest.mark.parametrize("prong", PRONGS)
@pytest.mark.parametrize("moment", ["before-claim", "after-claim", "before-report", "after-report"])
def test_a_process_killed_around_the_commit_loses_nothing(
    victim: UpProcess, client: Client, traps: Traps, moment: str, prong: str
) -> None:
    run = new_run(client, batch_size=1, strategy=prong)
    [account] = train(victim, run, once_at(5, lambda: traps.set(moment)), prefetch=2)
    assert traps.sprung(moment)
    check_recovered(client, run, account)


@pytest.mark.parametrize("part", PRONGS)
def test_a_killed_pool_process_loses_nothing(victim: UpProcess, client: Client, part: str) -> None:
    run = new_run(client, batch_size=1)
    harm = once_at(5, lambda: kill(pool(victim.children()[part])[0]))
    [account] = train(victim, run, harm, prefetch=2)
    check_recovered(client, run, account)


@pytest.mark.parametrize("part", PRONGS)
def test_a_killed_worker_loses_nothing_and_comes_back(
    victim: UpProcess, client: Client, part: str
) -> None:
    before = victim.children()[part]
    run = new_run(client, batch_size=1)
    [account] = train(victim, run, once_at(5, lambda: kill(before)), prefetch=2)
    check_recovered(client, run, account)
    wait_until(lambda: victim.children().get(part, before) != before)


def test_all_workers_killed_at_once_come_back_and_lose_nothing(
    victim: UpProcess, client: Client
) -> None:
    def kill_all() -> None:
        parts = victim.children()
        kill(*(process for part in PRONGS for process in [*pool(parts[part]), parts[part]]))

    run = new_run(client, batch_size=1)
    [account] = train(victim, run, once_at(5, kill_all), prefetch=2)
    check_recovered(client, run, account)


def test_a_process_killed_every_two_seconds_of_an_epoch_loses_nothing(
    victim: UpProcess, client: Client
) -> None:
    began = time.monotonic()
    killed: Counter[str] = Counter()

    def train_a_while(_: int) -> None:
        time.sleep(0.07)
        if time.monotonic() - began > 2 * (1 + killed.total()):
            part = PRONGS[killed.total() % 2]
            kill(pool(victim.children()[part])[-1])
            killed[part] += 1

    run = new_run(client, batch_size=1)
    [account] = train(victim, run, train_a_while, prefetch=2)
    assert killed.total() >= 3
    check_recovered(client, run, account)
