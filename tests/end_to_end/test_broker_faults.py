"""The broker dies, forgets, stands still, or delivers messages again: only wake-ups are lost."""

import base64
import json
import random
import shutil
import time
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from ddlp.core.client import Client
from ddlp.core.queue import TASK, create_celery
from ddlp.core.seal import Seal, fetch_key
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.harm import broker_url, kill, once_at, pool, stand_still, stopped
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import new_run, train


def survives(victim: UpProcess, client: Client, harm: Callable[[], None]) -> None:
    """An epoch is exact whatever is done to the broker in its middle."""
    run = new_run(client, batch_size=1)
    [account] = train(victim, run, once_at(5, harm), prefetch=2)
    assert account.samples == ONCE
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    assert client.get(f"/runs/{run}/epochs/0/certificate")["exactly_once"]


def test_a_wiped_broker_loses_nothing(victim: UpProcess, client: Client) -> None:
    with Redis.from_url(broker_url(victim)) as redis:
        survives(victim, client, redis.flushall)


def test_a_killed_broker_comes_back_and_loses_nothing(victim: UpProcess, client: Client) -> None:
    survives(victim, client, lambda: kill(victim.children()["valkey-server"]))


def test_a_killed_broker_that_comes_back_empty_loses_nothing(
    victim: UpProcess, client: Client
) -> None:
    log = victim.home / "redis" / "appendonlydir"

    def kill_and_empty() -> None:
        with stopped(victim.process.pid):
            kill(victim.children()["valkey-server"])
            shutil.rmtree(log)

    assert log.is_dir()
    survives(victim, client, kill_and_empty)


@pytest.mark.long
def test_a_broker_that_stands_still_loses_nothing(victim: UpProcess, client: Client) -> None:
    survives(victim, client, lambda: stand_still(5, victim.children()["valkey-server"]))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_broker_that_stands_still_for_a_minute_loses_nothing(
    victim: UpProcess, client: Client
) -> None:
    survives(victim, client, lambda: stand_still(60, victim.children()["valkey-server"]))


def test_connections_that_are_reset_again_and_again_lose_nothing(
    victim: UpProcess, client: Client
) -> None:
    def reset() -> None:
        with Redis.from_url(broker_url(victim)) as redis:
            for _ in range(5):
                assert redis.client_kill_filter(_type="normal", skipme=True)
                time.sleep(0.6)

    survives(victim, client, reset)


def leases_in(message: bytes) -> list[dict[str, Any]]:
    """The leases of a Celery message as it lies in the broker."""
    arguments, _, _ = json.loads(base64.b64decode(json.loads(message)["body"]))
    found: list[dict[str, Any]] = arguments[0]
    return found


def test_messages_delivered_five_times_out_of_order_and_late_are_made_once(
    victim: UpProcess, client: Client
) -> None:
    messages: list[list[dict[str, Any]]] = []
    celery = create_celery(broker_url(victim), Seal(fetch_key(client)))

    def deliver(times: int) -> None:
        again = messages * times
        random.Random(0).shuffle(again)
        for leases in again:
            celery.send_task(TASK, args=[leases], queue="cpu", ignore_result=True)

    worker = victim.children()["cpu"]
    with stopped(worker, *pool(worker)), Redis.from_url(broker_url(victim)) as redis:
        run = new_run(client, batch_size=1, strategy="cpu", epochs=2)
        wait_until(lambda: redis.llen("cpu") > 1)
        messages += [leases_in(raw) for raw in redis.lrange("cpu", 0, -1)]
        deliver(5)
    accounts = train(victim, run, once_at(60, lambda: deliver(1)), prefetch=2)
    celery.close()
    assert [account.samples for account in accounts] == [ONCE, ONCE]
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    assert [epoch["made"]["cpu"] for epoch in client.get(f"/runs/{run}/epochs")] == [123, 123]
    for number in range(2):
        certificate = client.get(f"/runs/{run}/epochs/{number}/certificate")
        assert certificate["exactly_once"]
        assert not certificate["isolated"]
    assert all(device["live"] for device in client.get("/devices"))
