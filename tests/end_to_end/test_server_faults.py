"""The server dies in the middle of what it does, or its database is kept from it for a while."""

import http.client
import os
import re
import signal
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from typing import Self
from urllib.parse import urlsplit

import pytest

from ddlp.core.client import Client
from ddlp.core.errors import NotFound, Unavailable
from ddlp.loader import passes
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.conftest import Traps
from tests.end_to_end.harm import kill, once_at
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import new_run, train


def check_exact(client: Client, run: str) -> None:
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    assert client.get(f"/runs/{run}/epochs/0/certificate")["exactly_once"]


def test_a_killed_server_comes_back_and_loses_nothing(victim: UpProcess, client: Client) -> None:
    run = new_run(client, batch_size=1)
    harm = once_at(5, lambda: kill(victim.children()["serve"]))
    [account] = train(victim, run, harm, prefetch=2)
    assert account.samples == ONCE
    check_exact(client, run)


def test_a_loader_says_that_the_server_is_silent_and_where_it_looks_for_it(
    victim: UpProcess,
    client: Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passes, "_SAY_EVERY_S", 0.2)
    run = new_run(client, batch_size=1)
    silent = re.compile(
        rf"still waiting for: an answer from the server at {re.escape(victim.url)} \(check that it "
        r"runs, or set DDLP_URL or url= to its address\), asking for step \d+ of epoch 0"
    )
    server = victim.children()["serve"]

    def watch() -> None:
        wait_until(lambda: any(map(silent.fullmatch, caplog.messages)))
        os.kill(server, signal.SIGCONT)

    watcher = threading.Thread(target=watch)

    def fall_silent(step: int) -> None:
        if step == 5:
            os.kill(server, signal.SIGSTOP)
            watcher.start()

    [account] = train(victim, run, fall_silent, prefetch=2)
    watcher.join()
    assert account.samples == ONCE
    check_exact(client, run)


@pytest.mark.parametrize("moment", ["before-commit-batches", "after-commit-batches"])
def test_a_server_killed_at_a_commit_loses_nothing(
    victim: UpProcess, client: Client, traps: Traps, moment: str
) -> None:
    run = new_run(client, batch_size=1)
    [account] = train(victim, run, once_at(5, lambda: traps.set(moment)), prefetch=2)
    assert traps.sprung(moment)
    assert account.samples == ONCE
    check_exact(client, run)


@pytest.mark.parametrize("moment", ["before-commit-runs", "after-commit-runs"])
def test_a_run_whose_server_was_killed_while_making_it_is_absent_or_taken_up(
    victim: UpProcess, client: Client, traps: Traps, moment: str
) -> None:
    run = f"t-{uuid.uuid4().hex[:8]}"
    body = {"name": run, "dataset": "fruit", "pipeline": "small", "batch_size": 8}
    traps.set(moment)
    with (
        Client(victim.url, key="", patience_s=0) as hasty,  # one that asks again gets its run
        pytest.raises(Unavailable),
    ):
        hasty.post("/runs", body, once=True)
    assert traps.sprung(moment)
    if moment.startswith("before"):
        with pytest.raises(NotFound):
            client.get(f"/runs/{run}")
        client.post("/runs", body)
    [account] = train(victim, run)
    assert account.samples == ONCE
    check_exact(client, run)


class Events:
    """An open stream of a run's events."""

    def __init__(self, stack: UpProcess, run: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(stack.url).netloc, timeout=20)
        self._connection.request("GET", f"/api/v1/runs/{run}/events")
        self._stream = self._connection.getresponse()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._connection.close()

    def __iter__(self) -> Iterator[str]:
        """The kinds of the events until the stream ends."""
        while line := self._stream.readline():
            if line.startswith(b"event: "):
                yield line.decode().split()[1]


def test_a_stream_of_a_killed_server_ends_and_the_next_one_goes_on(
    victim: UpProcess, client: Client
) -> None:
    run = new_run(client, batch_size=1)
    with Events(victim, run) as events:
        assert next(iter(events)) == "snapshot"
        kill(victim.children()["serve"])
        assert "end" not in set(events)
    assert client.get(f"/runs/{run}")["state"] == "created"
    with Events(victim, run) as events:
        assert next(iter(events)) == "snapshot"
        [account] = train(victim, run)
        assert list(events)[-1] == "end"
    assert account.samples == ONCE


def test_a_database_that_another_writer_locks_is_waited_for(
    victim: UpProcess, client: Client
) -> None:
    other = sqlite3.connect(
        victim.home / "ddlp.db", isolation_level=None, check_same_thread=False, timeout=30
    )
    release = threading.Timer(3, lambda: other.execute("ROLLBACK"))

    def lock() -> None:
        other.execute("BEGIN IMMEDIATE")
        release.start()

    run = new_run(client, batch_size=1)
    [account] = train(victim, run, once_at(5, lock), prefetch=2)
    release.join()
    other.close()
    assert account.samples == ONCE
    check_exact(client, run)
