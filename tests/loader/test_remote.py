"""A server's run as a loader comes to it: what is said where no server answers."""

import re
import socket
import uuid
from typing import Any, cast

import pytest

from ddlp.core import client
from ddlp.core.errors import Unavailable
from ddlp.core.messages import Attach, Attached, Holder, Taken, Where
from ddlp.core.plan import RunPlan
from ddlp.core.types import BadPolicy
from ddlp.loader import DualLoader, passes, remote


@pytest.fixture
def nobody() -> str:
    """An address on which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}"


def test_a_loader_that_finds_no_server_says_so_again_and_again_until_it_gives_up(
    nobody: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_SAY_AFTER_S", 0.1)
    monkeypatch.setattr(client, "_SAY_EVERY_S", 0.3)
    monkeypatch.setattr(remote, "_PATIENCE_S", 1.5)
    with pytest.raises(Unavailable, match="DDLP_URL") as error:
        DualLoader("photos-1", url=nobody)
    assert nobody in str(error.value)
    said = re.compile(
        rf"no answer from {nobody} for \d+ s; trying for \d+ s more. Start the server with: "
        "ddlp up, or set DDLP_URL or url= to its address"
    )
    assert len([line for line in caplog.messages if said.fullmatch(line)]) >= 2


def test_silence_is_told_within_three_seconds_and_every_ten_from_then_on() -> None:
    for module in (client, passes):
        assert module._SAY_AFTER_S < 3
        assert module._SAY_EVERY_S == 10


class Server:
    """A server whose run was left by processes that died; it does not know of that."""

    def __init__(self, dead: int) -> None:
        self.sessions = [uuid.uuid4() for _ in range(dead)]
        self.asked = 0

    def post(self, _path: str, body: Attach) -> dict[str, Any]:
        """Answer a process that attaches."""
        self.asked += 1
        assert self.asked < 10, "it asks without end"
        for rank, session in enumerate(self.sessions):
            if session not in body.dead:
                holder = Holder(
                    session=session,
                    host="here",
                    place="boot/1",
                    process=1,
                    rank=rank,
                    world_size=3,
                    heard_s=0.0,
                )
                return Taken(holder=holder, timeout_s=15.0).model_dump(mode="json")
        plan = RunPlan(10, 2, 1, 0)
        attached = Attached(
            run=uuid.uuid4(),
            session=body.session,
            name="photos-1",
            plan=plan,
            dataset_version="",
            transforms=[],
            pipeline_hash="",
            on_bad=BadPolicy.SKIP,
            where=Where(epoch=0, step=0, rounds=5, position=0),
        )
        return attached.model_dump(mode="json")


def test_ranks_that_were_all_killed_make_room_at_once_for_a_job_of_another_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "is_dead", lambda *_: True)
    feed = remote.RemoteFeed.__new__(remote.RemoteFeed)
    feed._body = Attach(rank=0, world_size=1)
    server = Server(dead=3)
    assert feed._attach(cast(client.Client, server), "photos-1").name == "photos-1"
    assert server.asked == 4
