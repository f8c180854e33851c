"""Devices that are drained, resumed, removed, and what is told of them."""

import uuid
from pathlib import Path

import pytest
from sqlalchemy import select

from ddlp.core.energy import EnergyReading, PowerModel
from ddlp.core.errors import Conflict, NotFound
from ddlp.core.messages import DeviceInfo, Heartbeat, Orders
from ddlp.core.types import DeviceHealth, EpochState, Prong, Provenance
from ddlp.server import device_figures, devices
from ddlp.server.models import AuditEvent, Run
from ddlp.server.snapshot import Snapshot, take
from tests.server.conftest import Plane
from tests.server.driving import (
    ask,
    certificate_of,
    claim,
    commit,
    deliver,
    feed,
    new_run,
    pass_time,
    register,
    settle,
    take_sent,
    work_off,
)


def drain(plane: Plane, name: str) -> None:
    ask(plane, lambda board, session, now: devices.drain(board, session, name, now))
    settle(plane)


def resume(plane: Plane, name: str) -> None:
    ask(plane, lambda board, session, now: devices.resume(board, session, name, now))
    settle(plane)


def remove(plane: Plane, name: str) -> None:
    ask(plane, lambda board, session, now: devices.remove(board, session, name, now))


def beat(
    plane: Plane, name: str, incarnation: uuid.UUID, energy: EnergyReading | None = None
) -> Orders:
    body = Heartbeat(incarnation=incarnation, energy=energy)
    orders: Orders = ask(
        plane, lambda board, session, now: devices.heartbeat(board, session, name, body, now)
    )
    return orders


def told(plane: Plane, name: str) -> DeviceInfo:
    """What the API says of a device."""
    seen = ask(plane, lambda board, _, now: device_figures.look(board, now))
    with plane.database.session() as session:
        found = devices.list_all(session, plane.settings, plane.now, seen)
    return next(info for info in found if info.name == name)


def actions(plane: Plane, subject: str) -> list[str]:
    with plane.database.session() as session:
        query = select(AuditEvent.action).where(AuditEvent.subject == subject)
        return list(session.scalars(query.order_by(AuditEvent.id)))


def held_up(plane: Plane, run: uuid.UUID) -> str | None:
    with plane.database.session() as session:
        return session.get_one(Run, run).held_up


def test_a_drained_device_finishes_what_it_holds_and_gets_nothing_new(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    run = new_run(plane, images, strategy="wrr")
    settle(plane)
    sent = take_sent(plane)
    [held, *queued] = [lease for prong, lease in sent if prong is Prong.CSD]
    claim(plane, Prong.CSD, held)
    drain(plane, "csd")
    assert told(plane, "csd").health is DeviceHealth.DRAINING
    # What only waited for it is given to the other prong, under tokens of its own.
    assert queued
    assert all(prong is Prong.CPU for prong, _ in plane.sent)
    [denied] = claim(plane, Prong.CSD, queued[0]).denied
    assert "not valid any more" in denied.reason
    assert commit(plane, Prong.CSD, held).denied == []
    drained = told(plane, "csd")
    assert (drained.health, drained.holds, drained.drained_at) == (DeviceHealth.DRAINED, 0, 1000.0)
    assert held_up(plane, run) is None
    for prong, lease in sent:
        if prong is Prong.CPU:
            claim(plane, prong, lease)
            commit(plane, prong, lease)
    deliver(plane, run)
    feed(plane, run, 7, 7)
    assert certificate_of(plane, run).state is EpochState.COMPLETE


def test_the_lease_that_a_drained_device_is_offered_goes_to_another_at_once(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CPU, name="other")
    new_run(plane, images, strategy="cpu")
    settle(plane)
    offered = [lease for _, lease in take_sent(plane)]
    drain(plane, "cpu")
    assert plane.sent == []  # they are still in the queue, where the other finds them
    denied = claim(plane, Prong.CPU, *offered).denied
    said = {entry.reason for entry in denied}
    assert said == {"device cpu is drained; resume it to give it work"}
    settle(plane)
    again = [lease for _, lease in take_sent(plane)]
    assert again[0].index == offered[0].index
    assert min(lease.token for lease in again) > max(lease.token for lease in offered)


def test_a_device_tells_how_many_unsigned_messages_it_dropped(plane: Plane) -> None:
    incarnation = register(plane, Prong.CPU)
    assert told(plane, "cpu").dropped_messages == 0
    body = Heartbeat(incarnation=incarnation, dropped_messages=3)
    ask(plane, lambda board, session, now: devices.heartbeat(board, session, "cpu", body, now))
    assert told(plane, "cpu").dropped_messages == 3


def snapshot_of(plane: Plane, run: uuid.UUID) -> Snapshot:
    found: Snapshot = ask(plane, lambda board, _, now: take(board, run, now))
    return found


def test_a_run_with_drained_devices_only_says_so_and_goes_on_with_the_first_that_is_resumed(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    settle(plane)
    drain(plane, "cpu")
    take_sent(plane)
    assert held_up(plane, run) == (
        "no device works for cpu: cpu is drained; give it work again with: ddlp device resume cpu"
    )
    seen = snapshot_of(plane, run)
    assert seen.stalled
    assert "No device makes batches" in seen.limit
    assert told(plane, "cpu").runs == []
    resume(plane, "cpu")
    assert not snapshot_of(plane, run).stalled
    assert held_up(plane, run) is None
    assert take_sent(plane)
    assert told(plane, "cpu").health is DeviceHealth.LIVE


def test_it_stays_drained_when_it_or_the_server_starts_anew(plane: Plane) -> None:
    incarnation = register(plane, Prong.CPU)
    assert not beat(plane, "cpu", incarnation).drained
    drain(plane, "cpu")
    plane.now += 5
    drain(plane, "cpu")
    assert beat(plane, "cpu", incarnation).drained
    plane.restart()
    assert beat(plane, "cpu", incarnation).drained
    again = register(plane, Prong.CPU)
    assert beat(plane, "cpu", again).drained
    assert told(plane, "cpu").drained_at == 1000.0
    resume(plane, "cpu")
    resume(plane, "cpu")
    assert not beat(plane, "cpu", again).drained
    known = ["device.register", "device.drain", "device.register", "device.resume"]
    assert actions(plane, "cpu") == known


def test_only_a_silent_device_is_removed(plane: Plane) -> None:
    incarnation = register(plane, Prong.CSD)
    with pytest.raises(Conflict, match="device csd is alive on here; stop its worker"):
        remove(plane, "csd")
    plane.now += plane.settings.device_timeout_s + 1
    silent = told(plane, "csd")
    assert silent.health is DeviceHealth.SILENT
    assert "remove it" in silent.health_words
    remove(plane, "csd")
    with plane.database.session() as session:
        assert devices.list_all(session, plane.settings, plane.now) == []
    with pytest.raises(NotFound, match="register it again"):
        beat(plane, "csd", incarnation)
    assert actions(plane, "csd") == ["device.register", "device.remove"]
    register(plane, Prong.CSD)
    assert told(plane, "csd").health is DeviceHealth.LIVE


def test_how_far_its_clock_is_off_is_measured_when_it_registers(either_plane: Plane) -> None:
    plane = either_plane
    register(plane, Prong.CPU, clock_s=1_960.25)
    register(plane, Prong.CSD)
    assert told(plane, "cpu").clock_ahead_s == 960.25
    assert told(plane, "csd").clock_ahead_s is None
    plane.now += 5
    register(plane, Prong.CPU, clock_s=1_000.0)
    assert told(plane, "cpu").clock_ahead_s == -5.0


@pytest.mark.parametrize("act", [drain, resume, remove])
def test_an_unknown_device_is_said_to_be_so(plane: Plane, act: object) -> None:
    assert callable(act)
    with pytest.raises(NotFound, match="there is no device 'ghost'; see all of them with"):
        act(plane, "ghost")


def test_what_a_device_makes_and_draws_is_told_and_unknown_is_not_0(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU, power=PowerModel(active_w=10, idle_w=5, source="test"))
    idle = told(plane, "cpu")
    assert (idle.images_per_s, idle.busy, idle.runs) == (None, 0.0, [])
    assert (idle.draws.watts, idle.draws.provenance) == (5.0, Provenance.MODELLED)
    run = new_run(plane, images, name="apples", strategy="cpu")
    settle(plane)
    [(_, lease), *_] = take_sent(plane)
    claim(plane, Prong.CPU, lease)
    at_work = told(plane, "cpu")
    assert (at_work.holds, at_work.runs) == (1, ["apples"])
    assert (at_work.busy, at_work.images_per_s, at_work.draws.watts) == (None, None, None)
    commit(plane, Prong.CPU, lease)
    plane.now += 1
    made = told(plane, "cpu")
    assert (made.images_made, made.images_per_s, made.busy) == (20, 2.0, 0.2)
    assert made.draws.watts == pytest.approx(7)
    pass_time(plane, 20)
    assert told(plane, "cpu").images_per_s is None
    plane.restart()
    assert told(plane, "cpu").images_made == 20
    assert run


def test_what_an_idle_device_draws_is_unknown_where_nobody_has_said(plane: Plane) -> None:
    register(plane, Prong.CPU, power=PowerModel(active_w=10, source="test"))
    draws = told(plane, "cpu").draws
    assert (draws.watts, draws.provenance) == (None, Provenance.UNAVAILABLE)
    assert draws.method == "what it draws idle is not known"


def test_a_drive_that_says_what_it_used_is_believed(plane: Plane) -> None:
    incarnation = register(plane, Prong.CSD, power=PowerModel(active_w=None, source="nobody"))
    unknown = told(plane, "csd").draws
    assert (unknown.watts, unknown.provenance) == (None, Provenance.UNAVAILABLE)
    for joules in (100, 130):
        reading = EnergyReading(joules=joules, provenance=Provenance.MEASURED, method="its counter")
        beat(plane, "csd", incarnation, reading)
        plane.now += 4
    draws = told(plane, "csd").draws
    assert (draws.watts, draws.provenance, draws.method) == (
        7.5,
        Provenance.MEASURED,
        "its counter",
    )


def test_resumed_in_the_middle_of_an_epoch_it_takes_its_share_again(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    run = new_run(plane, images, strategy="wrr", batch_size=4)
    settle(plane)
    drain(plane, "csd")
    plane.sent[:] = [entry for entry in plane.sent if entry[0] is Prong.CPU]
    first = deliver(plane, run, stop=8)
    assert {prong for prong, _ in plane.sent} <= {Prong.CPU}
    resume(plane, "csd")
    assert Prong.CSD in {prong for prong, _ in plane.sent}
    work_off(plane)
    assert sorted(first + deliver(plane, run, start=8, stop=31)) == list(range(31))
    assert told(plane, "csd").images_made
