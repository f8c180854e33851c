"""Batches that fail or are damaged are logged, each with what it is."""

import logging
import uuid
from pathlib import Path

import pytest

from ddlp.core.logs import AboutFilter
from ddlp.core.messages import Damaged, Failure, Lease, Reports
from ddlp.core.types import Prong
from ddlp.server import serving, work
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import SESSION, ask, claim, feed, new_run, register, take_sent, work_off


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What is logged, with what it is about."""
    caplog.set_level(logging.INFO, "ddlp")
    caplog.handler.addFilter(AboutFilter())
    return caplog


def line(heard: pytest.LogCaptureFixture, words: str) -> tuple[str, dict[str, object]]:
    """The level of the one line that holds these words, and what it is about."""
    [record] = [record for record in heard.records if words in record.getMessage()]
    names = ("run", "epoch", "batch", "device")
    return record.levelname, {name: getattr(record, name, None) for name in names}


def begin(plane: Plane, images: Path) -> tuple[uuid.UUID, Lease]:
    """A run of which one batch was taken up."""
    register(plane, Prong.CPU)
    run = new_run(plane, images, name="r50")
    wait_until(lambda: plane.sent)
    [_, lease], *_ = take_sent(plane)
    claim(plane, Prong.CPU, lease)
    return run, lease


@pytest.mark.parametrize(("no_room", "level"), [(False, "WARNING"), (True, "INFO")])
def test_a_batch_that_fails_is_logged(
    plane: Plane, images: Path, heard: pytest.LogCaptureFixture, no_room: bool, level: str
) -> None:
    _, lease = begin(plane, images)
    failure = Failure(lease=lease, reason="the disk\nis gone", permanent=False, no_room=no_room)
    body = Reports(device="cpu", failed=[failure])
    ask(plane, lambda board, _, now: work.report(board, body, now))
    expected = {"run": "r50", "epoch": 0, "batch": lease.index, "device": "cpu"}
    assert line(heard, "the disk\nis gone") == (level, expected)


@pytest.mark.parametrize(("gone", "level"), [(False, "WARNING"), (True, "INFO")])
def test_a_batch_that_is_damaged_is_logged(
    plane: Plane, images: Path, heard: pytest.LogCaptureFixture, gone: bool, level: str
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, name="r50")
    wait_until(lambda: work_off(plane))
    [fed] = feed(plane, run, 0, 0).batches
    report = Damaged(
        rank=0,
        session=SESSION,
        epoch=0,
        index=fed.index,
        token=fed.token,
        reason="a bit is wrong",
        gone=gone,
    )
    ask(plane, lambda board, _, now: serving.damaged(board.run(run), report, now))
    expected = {"run": "r50", "epoch": 0, "batch": fed.index, "device": "cpu"}
    assert line(heard, "a bit is wrong") == (level, expected)
