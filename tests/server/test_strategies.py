"""A run goes on with another strategy, follows a recorded order, and begins with known rates."""

import asyncio
import uuid
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import select

from ddlp.core.certificate import Certificate, verify
from ddlp.core.errors import Conflict, DdlpError, InvalidInput, NotFound
from ddlp.core.messages import ReplayCreate, RunInfo, StrategyChange
from ddlp.core.types import Prong, RunState
from ddlp.server import datasets
from ddlp.server import runs as server_runs
from ddlp.server.context import Context
from ddlp.server.idempotency import Once
from ddlp.server.models import Calibration, Run
from ddlp.server.notary import Notary
from ddlp.server.routes import runs
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    Job,
    ask,
    certificate_of,
    deliver,
    feed,
    new_run,
    register,
    settle,
    state_of,
)


@pytest.fixture
def prongs(plane: Plane) -> Plane:
    """A plane with a device of each prong."""
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    return plane


def context(plane: Plane) -> Context:
    nothing = cast("Any", None)
    rest = [nothing] * 6
    return Context(plane.settings, plane.database, nothing, plane.dispatcher, *rest)


def switch(plane: Plane, run: uuid.UUID, strategy: str, window: int | None = None) -> RunInfo:
    """POST /runs/{ref}/strategy."""
    body = StrategyChange(strategy=strategy, reorder_window=window)
    return asyncio.run(runs.strategy(str(run), body, context(plane)))


def replay(plane: Plane, run: uuid.UUID, **fields: Any) -> RunInfo:
    """POST /runs/{ref}/replay."""
    return asyncio.run(
        runs.replay(str(run), ReplayCreate(**fields), context(plane), Once(None, "", 0.0))
    )


def finish(plane: Plane, run: uuid.UUID) -> Certificate:
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    notary = Notary(plane.database)
    while notary.seal_one():
        pass
    return certificate_of(plane, run)


@pytest.mark.parametrize("step", range(7))
def test_a_strategy_is_switched_in_the_middle_of_an_epoch(
    prongs: Plane, images: Path, step: int
) -> None:
    run = new_run(prongs, images, strategy="wrr")
    before = deliver(prongs, run, 0, step)
    assert switch(prongs, run, "cpu").strategy == "cpu"
    after = deliver(prongs, run, step, 7)
    assert after == sorted(after), "from the head only"
    assert sorted(before + after) == list(range(7))
    feed(prongs, run, 7, 7)
    certificate = finish(prongs, run)
    assert verify(certificate) == []
    assert certificate.exactly_once


def test_a_strategy_that_was_switched_to_outlives_a_crash(prongs: Plane, images: Path) -> None:
    run = new_run(prongs, images, strategy="cpu")
    deliver(prongs, run, 0, 2)
    switch(prongs, run, "bounded", 3)
    prongs.restart()
    assert ask(prongs, lambda board, *_: vars(board.run(run).schedule.strategy)) == {"window": 3}
    with prongs.database.session() as session:
        info = server_runs.info(session, session.get_one(Run, run))
    assert (info.strategy, info.reorder_window) == ("bounded", 3)


@pytest.mark.parametrize(
    ("strategy", "window"), [("fastest", None), ("replay", None), ("", None), ("cpu", 4)]
)
def test_a_strategy_that_is_none_is_refused_and_nothing_changes(
    prongs: Plane, images: Path, strategy: str, window: int | None
) -> None:
    run = new_run(prongs, images, strategy="cpu")
    with pytest.raises(InvalidInput) as caught:
        switch(prongs, run, strategy, window)
    assert caught.value.status == 422
    assert deliver(prongs, run) == list(range(7))


def test_the_strategy_of_a_run_that_is_over_stays(prongs: Plane, images: Path) -> None:
    run = new_run(prongs, images, strategy="cpu")
    prongs.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    with pytest.raises(Conflict, match="is over; its strategy stays as it was") as caught:
        switch(prongs, run, "wrr")
    assert caught.value.status == 409
    with pytest.raises(NotFound):
        switch(prongs, uuid.uuid4(), "wrr")


def test_a_replay_follows_the_recorded_order(prongs: Plane, images: Path) -> None:
    source = new_run(prongs, images, strategy="wrr", world_size=2, epochs=2, seed=7)
    job = Job(prongs, source, 2)
    orders = [job.train(epoch, 4) for epoch in range(2)]
    recorded = [finish(prongs, source), certificate_of(prongs, source, 1)]
    info = replay(prongs, source, name="again")
    assert (info.name, info.strategy, info.replay_of) == ("again", "replay", source)
    job = Job(prongs, info.id, 2, between=prongs.restart)
    assert [job.train(epoch, 4) for epoch in range(2)] == orders
    finish(prongs, info.id)
    for epoch in range(2):
        again = certificate_of(prongs, info.id, epoch)
        assert again.segments == recorded[epoch].segments
        assert again.checksums == recorded[epoch].checksums


def test_what_is_not_completed_cannot_be_replayed(prongs: Plane, images: Path) -> None:
    run = new_run(prongs, images, strategy="cpu")
    with pytest.raises(Conflict, match="only one whose epochs are all complete can be"):
        replay(prongs, run)
    deliver(prongs, run)
    feed(prongs, run, 7, 7)
    wait_until(lambda: state_of(prongs, run) is RunState.COMPLETED)
    assert replay(prongs, run).state is RunState.CREATED, "sealed or not"


@pytest.mark.parametrize(("epoch", "position"), [(0, 4), (1, 0)])
def test_a_run_that_changed_its_ranks_cannot_be_replayed(
    prongs: Plane, images: Path, epoch: int, position: int
) -> None:
    run = new_run(prongs, images, strategy="cpu", world_size=2, epochs=2)
    job = Job(prongs, run, 2)
    job.take(position // 2 or 4)
    job.acknowledge()
    other = Job(prongs, run, 3)
    for number in range(epoch, 2):
        where = other.rewind(position if number == epoch else 0, number)
        other.take(where.rounds)
        other.acknowledge()
    finish(prongs, run)
    with pytest.raises(DdlpError, match="its number of ranks changed on the way"):
        replay(prongs, run)


def test_rates_are_kept_by_dataset_pipeline_and_device_and_used_again(
    prongs: Plane, images: Path
) -> None:
    first = new_run(prongs, images, strategy="mte", calibration=2)
    assert split(prongs, first) is None
    deliver(prongs, first)
    feed(prongs, first, 7, 7)
    finish(prongs, first)
    with prongs.database.session() as session:
        row = session.get_one(Run, first)
        rows = session.scalars(select(Calibration)).all()
    assert {r.device for r in rows} == {"cpu", "csd"}
    assert {(r.dataset_version, r.pipeline_hash) for r in rows} == {
        (row.dataset_version, row.pipeline_hash)
    }
    assert all(r.batches >= 2 and r.sample_s > 0 for r in rows)
    prongs.restart()
    again = new_run(prongs, images, strategy="mte", calibration=2)
    settle(prongs)
    assert split(prongs, again) is not None
    other = new_run(prongs, images, strategy="mte", calibration=2, pipeline="imagenet-val")
    settle(prongs)
    assert split(prongs, other) is None
    with prongs.database.session() as session:
        datasets.find(session, "fruit").kind = "packed"
    faster = new_run(prongs, images, strategy="mte", calibration=2)
    settle(prongs)
    assert split(prongs, faster) is None, "records are decoded at another pace"


def split(plane: Plane, run: uuid.UUID) -> int | None:
    """Where the CPU's share of the first epoch ends, as far as the ledger knows."""
    with plane.database.session() as session:
        found = server_runs.epochs(session, session.get_one(Run, run))
    return found[0].split if found else None
