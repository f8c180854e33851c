"""Requests that the schedule or the database cannot take: each fails alone and changes nothing."""

import errno
import uuid
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy.orm import Session

from ddlp.core.errors import DdlpError, InvalidInput
from ddlp.core.messages import Commit, Failure, Lease, Reports
from ddlp.core.types import Prong
from ddlp.server import work
from ddlp.server.board import Board
from ddlp.server.calls import Call
from ddlp.server.models import Device
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    ask,
    claim,
    commit,
    deliver,
    feed,
    hold,
    new_run,
    refusal,
    register,
    take_sent,
)


def test_what_the_database_refuses_fails_alone_and_its_group_is_written(
    either_plane: Plane, images: Path
) -> None:
    plane = either_plane
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    prong, lease = take_sent(plane)[0]
    claim(plane, prong, lease)

    def too_large(_: Board, session: Session, __: float) -> None:
        row = session.get_one(Device, "cpu")
        row.slots = 2**70

    def too_large_for_the_ledger(board: Board, _: Session, __: float) -> None:
        batch = board.runs[run].schedule.find(0, lease.index)
        assert batch is not None
        batch.nbytes = 2**70
        board.runs[run].schedule.note(batch)

    done = Commit(lease=lease, nbytes=4096, checksum=1, seconds=2, cpu_s=1)
    body = Reports(device="cpu", made=[done])
    go_on = hold(plane)
    first = plane.dispatcher.call(too_large)
    sound = plane.dispatcher.call(lambda board, _, now: work.report(board, body, now))
    second = plane.dispatcher.call(too_large_for_the_ledger)
    last = plane.dispatcher.call(lambda board, _, now: len(board.runs))
    go_on()
    for answer in (first, second):
        with pytest.raises(InvalidInput, match="the database does not take a value") as refusal:
            answer.result(10)
        assert "SQL" not in str(refusal.value).replace("SQLite", "")
    assert sound.result(10).denied == []
    assert last.result(10) == 1
    assert [batch.index for batch in feed(plane, run, 0, 0).batches] == [0]


@pytest.mark.parametrize("seconds", [0.0, 1e-300, 1e8])
def test_no_figure_that_is_reported_stops_the_schedule(
    plane: Plane, images: Path, seconds: float
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    run = new_run(plane, images, strategy="wrr", epochs=2)
    for prong, lease in take_sent(plane) or [take_sent_later(plane)]:
        claim(plane, prong, lease)
        commit(plane, prong, lease, seconds=seconds)
    assert sorted(deliver(plane, run)) == list(range(7))


def take_sent_later(plane: Plane) -> tuple[Prong, Lease]:
    wait_until(lambda: plane.sent)
    return take_sent(plane)[0]


@pytest.mark.parametrize(
    "field", ["seconds", "cpu_s", "nbytes", "fetch_s", "peak_bytes", "token", "epoch", "ended_s"]
)
@pytest.mark.parametrize("value", [1e308, -1.0, float("inf"), float("nan"), 2**63])
def test_figures_beyond_all_bounds_are_no_report(field: str, value: float) -> None:
    lease = {"run": str(uuid.uuid4()), "epoch": 0, "index": 0, "token": 1}
    report = {"nbytes": 1, "checksum": 1, "seconds": 1.0, "cpu_s": 1.0}
    times = {"fetch_s": 0.0, "peak_bytes": 0}
    for part in (lease, report, times):
        if field in part or (field == "ended_s" and part is report):
            part[field] = value
    with pytest.raises(ValidationError):
        Commit.model_validate({**report, "lease": lease, "times": times})


def test_a_report_that_is_refused_changes_nothing(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    prong, lease = take_sent(plane)[0]
    claim(plane, prong, lease)

    def known(board: Board, *_: object) -> str:
        schedule = board.runs[run].schedule
        return repr((schedule.fleet, list(schedule.epochs[0].under_way), board.made))

    before = ask(plane, known)
    for wrong in ({"token": 10**6}, {"epoch": 7}, {"index": 10**6}, {"run": uuid.uuid4()}):
        stale = lease.model_copy(update=wrong)
        assert refusal(plane, prong, stale)
        failed = Reports(device="cpu", failed=[Failure(lease=stale, reason="no")])
        reported = ask(plane, lambda board, _, now, body=failed: work.report(board, body, now))
        assert [denied.lease for denied in reported.denied] == [stale]
    assert ask(plane, known) == before


def test_a_failure_while_a_group_is_done_one_by_one_loses_nobody(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(plane, monkeypatch, MemoryError())

    def bad(*_: object) -> None:
        if failed:
            raise OSError(errno.EMFILE, "Too many open files")
        failed.append(1)

    failed: list[int] = []
    go_on = hold(plane)
    first = plane.dispatcher.call(bad)
    others = [plane.dispatcher.call(lambda *_, mine=number: mine) for number in range(3)]
    go_on()
    with pytest.raises(DdlpError):
        first.result(10)
    assert [other.result(10) for other in others] == [0, 1, 2]
    assert ask(plane, lambda *_: "alive") == "alive"


def fail_once(plane: Plane, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Have the next group of several requests fail when it is written."""
    save, group = plane.dispatcher._save, plane.dispatcher._group
    sizes: list[int] = []
    left = [error]

    def note(calls: list[Call]) -> Any:
        sizes.append(len(calls))
        return group(calls)

    def fail(session: Session, now: float) -> None:
        save(session, now)
        if left and sizes[-1] > 1:
            raise left.pop()

    monkeypatch.setattr(plane.dispatcher, "_group", note)
    monkeypatch.setattr(plane.dispatcher, "_save", fail)
