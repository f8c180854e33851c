"""A loader that had no contact with its server holds batches back until it knows its rank."""

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ddlp.core.errors import Conflict, Unavailable, WaitTimeout
from ddlp.core.messages import Attached, Leave, Where
from ddlp.core.plan import RunPlan
from ddlp.core.types import BadPolicy
from ddlp.loader import hold
from ddlp.loader.hold import Hold
from tests.conftest import wait_until


class Server:
    """A server that answers as it is told to."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.heard: list[tuple[str, Leave]] = []
        self.asked, self.answers = threading.Event(), threading.Event()
        self.answers.set()

    def post(self, path: str, body: Leave) -> None:
        """Take a word."""
        if self.error is not None:
            raise self.error
        if path.endswith("alive"):
            self.asked.set()
            self.answers.wait(30)
        self.heard.append((path.rpartition("/")[2], body))

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """One that is asked every few milliseconds."""
    found = Server()
    monkeypatch.setattr(hold, "_BEAT_S", 0.02)
    monkeypatch.setattr(Hold, "_connected", lambda _: found)
    return found


def attached() -> Attached:
    plan = RunPlan(10, 2, 1, 0)
    return Attached(
        run=uuid.uuid4(),
        session=uuid.uuid4(),
        name="photos-1",
        plan=plan,
        dataset_version="",
        transforms=[],
        pipeline_hash="",
        on_bad=BadPolicy.SKIP,
        where=Where(epoch=0, step=0, rounds=5, position=0),
    )


@pytest.fixture
def held(server: Server) -> Iterator[Hold]:
    """A rank whose server would give it away after a while."""
    found = Hold("http://there", None, "/runs/x", 1, attached())
    found.keep(0.5, time.monotonic())
    yield found
    found.release()


def test_a_rank_is_said_to_live_and_then_to_leave(server: Server, held: Hold) -> None:
    wait_until(lambda: len(server.heard) > 1)
    held.check(30.0)
    held.checkpoint = (0, 4)
    wait_until(lambda: server.heard[-1][1].checkpoint == (0, 4))
    held.release()
    assert {word for word, _ in server.heard[:-1]} == {"alive"}
    assert server.heard[-1][0] == "leave"
    assert {body.rank for _, body in server.heard} == {1}


def test_without_contact_batches_are_held_back_until_there_is_some(
    server: Server, held: Hold
) -> None:
    server.error = Unavailable("away")
    wait_until(lambda: not held._certain())
    passed: list[float] = []

    def take() -> None:
        held.check(30.0)
        passed.append(time.monotonic())

    waiting = threading.Thread(target=take)
    waiting.start()
    back_at = time.monotonic()
    server.error = None
    waiting.join(30)
    assert passed[0] >= back_at


def test_the_last_word_of_a_rank_is_that_it_leaves(server: Server, held: Hold) -> None:
    server.answers.clear()
    server.asked.clear()
    assert server.asked.wait(30)
    releasing = threading.Thread(target=held.release)
    releasing.start()
    releasing.join(0.1)
    server.answers.set()
    releasing.join(30)
    wait_until(lambda: len(server.heard) > 1)
    assert [word for word, _ in server.heard][-2:] == ["alive", "leave"]


def test_a_rank_that_another_process_holds_is_lost_for_good(server: Server, held: Hold) -> None:
    server.error = Conflict("rank 1 is held by another process now")
    wait_until(lambda: held._lost is not None)
    server.error = None
    for _ in range(2):
        with pytest.raises(Conflict, match="held by another process"):
            held.check(30.0)
    told = len(server.heard)
    held.release()
    assert len(server.heard) == told, "it is not its own to free"


def test_a_loader_that_is_closed_waits_no_more(server: Server, held: Hold) -> None:
    server.error = Unavailable("away")
    wait_until(lambda: not held._certain())
    failed: list[Any] = []

    def check() -> None:
        try:
            held.check(30.0)
        except WaitTimeout as error:
            failed.append(error)

    waiting = threading.Thread(target=check)
    waiting.start()
    held.release()
    waiting.join(30)
    assert "was closed while it waited for the server" in str(failed[0])


def test_what_is_held_back_is_not_waited_for_without_end(server: Server, held: Hold) -> None:
    server.error = Unavailable("away")
    wait_until(lambda: not held._certain())
    with pytest.raises(WaitTimeout, match=r"no contact with http://there for .* whether rank 1 is"):
        held.check(0.1)


def test_where_nothing_is_held_nothing_is_said(server: Server) -> None:
    free = Hold("http://there", None, "/runs/x", 0, attached())
    free.check(30.0)
    free.release()
    assert server.heard == []
