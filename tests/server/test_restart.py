"""A server that crashes at any point goes on where it was: same order, same places, new tokens."""

import uuid
from pathlib import Path

import pytest

from ddlp.core.certificate import verify
from ddlp.core.messages import Lease
from ddlp.core.types import Prong, RunState
from ddlp.server.models import BatchRow
from ddlp.server.notary import Notary
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    Job,
    certificate_of,
    claim,
    commit,
    feed,
    new_run,
    pass_time,
    race,
    refusal,
    register,
    state_of,
    take_sent,
)


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(
    "strategy",
    [
        {"strategy": "cpu"},
        {"strategy": "csd"},
        {"strategy": "mte", "calibration": 1},
        {"strategy": "wrr"},
        {"strategy": "bounded", "reorder_window": 0, "calibration": 1},
    ],
    ids=lambda fields: fields["strategy"],
)
def test_an_epoch_survives_a_crash_between_any_two_things(
    plane: Plane, images: Path, strategy: dict[str, object], world_size: int
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    run = new_run(plane, images, world_size=world_size, **strategy)
    job = Job(plane, run, world_size, between=plane.restart)
    batches = 8 if world_size == 2 else 7
    job.take(batches // world_size)
    job.acknowledge()
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    assert sorted(job.order) == list(range(batches))
    assert job.tokens == sorted(set(job.tokens))
    assert Notary(plane.database).seal_one()
    certificate = certificate_of(plane, run)
    assert verify(certificate) == []
    assert (certificate.state, certificate.exactly_once) == ("complete", True)


@pytest.mark.parametrize("strategy", ["cpu", "csd"])
def test_a_strict_order_is_the_same_with_crashes(
    either_plane: Plane, images: Path, strategy: str
) -> None:
    register(either_plane, Prong.CPU)
    register(either_plane, Prong.CSD)
    orders = []
    for between in (lambda: None, either_plane.restart):
        run = new_run(either_plane, images, strategy=strategy)
        orders.append(Job(either_plane, run, between=between).take(7))
        either_plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    assert orders[0] == orders[1]


def begin(plane: Plane, images: Path) -> tuple[uuid.UUID, Lease]:
    """A run whose first batch is being made."""
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    _, lease = take_sent(plane)[0]
    claim(plane, Prong.CPU, lease)
    return run, lease


@pytest.mark.parametrize("away_s", [0, 30, 3600, -3600])
def test_what_was_being_made_can_be_committed_after_a_crash(
    either_plane: Plane, images: Path, away_s: float
) -> None:
    run, lease = begin(either_plane, images)
    either_plane.dispatcher.stop()
    either_plane.now += away_s
    either_plane.begin()
    assert commit(either_plane, Prong.CPU, lease).denied == []
    assert [batch.token for batch in feed(either_plane, run, 0, 0).batches] == [lease.token]


@pytest.mark.parametrize("away_s", [0, 30, 3600, -3600])
def test_no_lease_lasts_longer_after_a_crash_than_it_was_given(
    plane: Plane, images: Path, away_s: float
) -> None:
    _, lease = begin(plane, images)
    with plane.database.session() as session:
        row = session.get_one(BatchRow, (lease.run, 0, lease.index))
        given_s = row.deadline - row.leased_at
    plane.dispatcher.stop()
    plane.now += away_s
    plane.begin()
    pass_time(plane, given_s + 1)
    assert "is not valid any more" in refusal(plane, Prong.CPU, lease)


def test_a_device_that_dies_with_the_server_is_found_dead(plane: Plane, images: Path) -> None:
    _, lease = begin(plane, images)
    plane.dispatcher.stop()
    plane.now -= 3600
    plane.begin()
    plane.now += plane.settings.device_timeout_s + 1
    wait_until(lambda: "is not valid any more" in _refused(plane, lease))


def _refused(plane: Plane, lease: Lease) -> str:
    return " ".join(denied.reason for denied in claim(plane, Prong.CPU, lease).denied)


def test_a_second_lease_of_before_a_crash_is_worth_nothing(plane: Plane, images: Path) -> None:
    _, first, second = race(plane, images)
    claim(plane, Prong.CPU, second)
    plane.restart()
    assert f"token {second.token}" in refusal(plane, Prong.CPU, second)
    assert commit(plane, Prong.CSD, first).denied == []
