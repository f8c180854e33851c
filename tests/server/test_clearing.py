"""Stores that cannot be cleared: the dispatcher goes on, and the store's device does it instead."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.messages import Heartbeat
from ddlp.core.store import batch_name
from ddlp.core.types import Prong
from ddlp.server import devices
from ddlp.server.board import Board
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import ask, claim, new_run, register, settle, take_sent


def test_an_attempt_that_cannot_be_cleared_here_is_left_to_its_device(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU, host=socket.gethostname())
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    prong, lease = take_sent(plane)[0]
    claim(plane, prong, lease)
    name = batch_name(run, lease.epoch, lease.index, lease.token)
    # A folder in its place refuses to be unlinked, to root too.
    (plane.settings.home / "cpu" / name).mkdir(parents=True)
    incarnation = register(plane, Prong.CPU, host=socket.gethostname())
    settle(plane)
    assert plane.dispatcher.alive
    beat = Heartbeat(incarnation=incarnation)
    told = ask(plane, lambda board, s, now: devices.heartbeat(board, s, "cpu", beat, now))
    assert lease.token in [attempt.token for attempt in told.discard]


def test_files_that_cannot_be_removed_do_not_end_the_dispatcher(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[int] = []

    def fail() -> None:
        raise PermissionError(13, "Permission denied", "/somewhere")

    def remove_two(board: Board, *_: object) -> str:
        board.written += [fail, lambda: done.append(1)]
        return "removed"

    assert ask(plane, remove_two) == "removed"
    settle(plane)
    assert plane.dispatcher.alive
    assert done == [1], "what follows is done once"
    [told] = [r for r in caplog.records if "cannot be removed" in r.getMessage()]
    assert "/somewhere" in told.getMessage()


def test_a_store_that_may_not_be_looked_into_is_no_folder_of_ours(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(plane, Prong.CPU)
    (plane.settings.home / "cpu").mkdir(exist_ok=True)
    assert ask(plane, lambda board, *_: board.devices["cpu"].folder) is not None
    stat = os.stat

    def refuse(path: object, **kind: Any) -> object:
        if str(path).endswith("/cpu"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **kind)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "stat", refuse)
    assert ask(plane, lambda board, *_: board.devices["cpu"].folder) is None
