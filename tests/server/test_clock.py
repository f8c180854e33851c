"""Leases are timed by the database's clock, and setting a machine's clock changes nothing."""

import time
from pathlib import Path

import pytest
from sqlalchemy import Engine

from ddlp.core.types import Prong
from ddlp.server.board import Board
from ddlp.server.database import Database
from ddlp.server.dispatcher import Dispatcher
from ddlp.server.models import BatchRow, Device
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import ask, claim, commit, new_run, register, settle, take_sent


def test_a_database_tells_the_time(engine: Engine) -> None:
    database = Database(engine.url.render_as_string(hide_password=False))
    first, second = database.now(), database.now()
    database.close()
    assert first <= second
    assert abs(first - time.time()) < 60


def test_a_dispatcher_begins_with_the_time_of_the_database(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "now", lambda _: 12_345.0)
    dispatcher = Dispatcher(plane.database, Board(plane.settings), lambda *_: None)
    assert 12_345.0 <= dispatcher.now() < 12_345.0 + 60


@pytest.mark.parametrize("step_s", [3600, -3600])
def test_a_clock_that_is_set_meanwhile_changes_no_lease(
    plane: Plane, images: Path, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    plane.clock = None
    plane.restart()
    register(plane, Prong.CPU)
    new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    prong, lease = take_sent(plane)[0]
    [granted] = claim(plane, prong, lease).granted
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + step_s)
    settle(plane)
    deadline = ask(plane, lambda board, _, now: board.runs[lease.run].schedule.find(0, 0).deadline)
    assert 0 < deadline - plane.dispatcher.now() <= granted.lasts_s
    assert commit(plane, prong, lease).denied == []


@pytest.mark.parametrize("step_s", [3600, -3600])
def test_stored_times_that_are_an_hour_off_neither_end_nor_prolong_anything(
    either_plane: Plane, images: Path, step_s: float
) -> None:
    plane = either_plane
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    sent = take_sent(plane)
    plane.dispatcher.stop()
    with plane.database.session() as session:
        given = {row.index: row.deadline - row.leased_at for row in session.query(BatchRow)}
        for row in session.query(BatchRow):
            row.leased_at, row.deadline = row.leased_at + step_s, row.deadline + step_s
        session.get_one(Device, "cpu").last_seen_at += step_s
    plane.begin()
    settle(plane)
    found = ask(
        plane,
        lambda board, _, now: {
            batch.index: (batch.leased_at - now, batch.deadline - now)
            for batch in board.runs[run].schedule.epochs[0].under_way.in_flight()
        },
    )
    assert found == {index: (0.0, pytest.approx(given_s)) for index, given_s in given.items()}
    assert [lease.index for _, lease in sent] == sorted(given)
    for prong, lease in sent:
        assert commit(plane, prong, lease).denied == []
