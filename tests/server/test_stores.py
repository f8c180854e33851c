"""What lies in stores: who clears it, who is told where it is, how full it may be."""

import socket
import uuid
from pathlib import Path

import pytest
from sqlalchemy import select

from ddlp.core.energy import PowerModel
from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.messages import (
    Failure,
    FeedRequest,
    Heartbeat,
    Orders,
    ReadInfo,
    Reports,
    RoomInfo,
    TrainerAccount,
)
from ddlp.core.store import batch_name
from ddlp.core.store.served import access_token
from ddlp.core.types import Prong, ReadPath, RunState
from ddlp.server import devices, figures, runs, work
from ddlp.server.models import AuditEvent, Run
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    SESSION,
    ask,
    claim,
    commit,
    deliver,
    feed,
    new_run,
    pass_time,
    register,
    send,
    settle,
    take_sent,
)

DAY_S = 86_400.0


def beat(
    plane: Plane, incarnation: uuid.UUID, prong: Prong = Prong.CSD, **fields: object
) -> Orders:
    """A device's sign of life, and what it is told."""
    body = Heartbeat(incarnation=incarnation, **fields)  # type: ignore[arg-type]
    orders: Orders = ask(
        plane, lambda board, s, now: devices.heartbeat(board, s, prong.value, body, now)
    )
    return orders


def test_a_device_learns_which_of_its_runs_are_over(either_plane: Plane, images: Path) -> None:
    plane = either_plane
    incarnation = register(plane, Prong.CSD)
    going_on, ended = new_run(plane, images), new_run(plane, images)
    plane.dispatcher.change_state(ended, RunState.CANCELLED).result(10)
    settle(plane)
    strange, long_gone = uuid.uuid4(), uuid.uuid4()
    stored = {going_on: DAY_S * 9, ended: 0.0, strange: DAY_S, long_gone: DAY_S + 1}
    assert set(beat(plane, incarnation, stored=stored).over) == {ended, long_gone}


@pytest.mark.parametrize("seen", [True, False])
def test_a_device_clears_away_what_the_server_may_not_reach(
    plane: Plane, images: Path, seen: bool
) -> None:
    host = socket.gethostname() if seen else "elsewhere"
    (plane.settings.home / "csd").mkdir()
    incarnation = register(plane, Prong.CSD, host=host)
    run = new_run(plane, images, strategy="csd")
    wait_until(lambda: plane.sent)
    _, lease = take_sent(plane)[0]
    claim(plane, Prong.CSD, lease)
    failure = Failure(lease=lease, reason="it broke")
    ask(plane, lambda b, _, now: work.report(b, Reports(device="csd", failed=[failure]), now))
    settle(plane)
    for answer in ("the first", "a second one, since the first may have been lost"):
        told = [(a.run, a.index, a.token) for a in beat(plane, incarnation).discard]
        assert told == ([] if seen else [(run, lease.index, lease.token)]), answer
    assert beat(plane, incarnation).discard == [], "and that is enough"


def test_a_rank_is_told_where_a_batch_lies_and_where_it_is_served(
    plane: Plane, images: Path
) -> None:
    served = {"serves": "http://csd:8100", "store_key": "secret", "host": "csd"}
    register(plane, Prong.CSD, store="file:///mnt/a%20b", **served)
    run = new_run(plane, images, strategy="csd")
    wait_until(lambda: plane.sent)
    for _, lease in take_sent(plane):
        claim(plane, Prong.CSD, lease)
        commit(plane, Prong.CSD, lease)
    [batch] = feed(plane, run, 0, 0).batches
    name = batch_name(run, 0, batch.index, batch.token)
    assert batch.location == f"file:///mnt/a%20b/{name}"
    assert (batch.served, batch.host) == (f"http://csd:8100/{name}", "csd")
    assert batch.access == access_token("secret", name)
    with plane.database.session() as session:
        [info] = devices.list_all(session, plane.settings, plane.now)
    assert "secret" not in info.model_dump_json()


def test_an_address_that_is_none_is_refused(plane: Plane) -> None:
    with pytest.raises(InvalidInput, match="is not the address of a store"):
        register(plane, Prong.CSD, store="ftp://somewhere")


def test_a_run_that_fits_no_store_is_refused_with_the_remedy(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU, room=RoomInfo(free_bytes=64 << 20))
    big = new_run(plane, images, batch_size=123)
    with plane.database.session() as session:
        row = session.get_one(Run, big)
        known = devices.list_all(session, plane.settings, plane.now)
        runs.check_room(row, known)
        full = [known[0].model_copy(update={"room": RoomInfo(free_bytes=1 << 20)})]
        with pytest.raises(Conflict, match=r"has room for 1\.0 MiB and needs .* --shm-size"):
            runs.check_room(row, full)
        runs.check_room(row, [*full, *known])
        runs.check_room(row, [full[0].model_copy(update={"live": False})])
        runs.check_room(row, [known[0].model_copy(update={"room": RoomInfo()})])


def test_the_room_that_devices_have_bounds_what_may_lie_there(plane: Plane, images: Path) -> None:
    def most(board: object, *_: object) -> int:
        return board.run(run).schedule.limits.stored[Prong.CSD]  # type: ignore[attr-defined, no-any-return]

    incarnation = register(plane, Prong.CSD, room=RoomInfo(free_bytes=32 << 20))
    run = new_run(plane, images)
    assert ask(plane, most) == (16 << 20) // (4096 * (1 + 735 + 2))
    beat(plane, incarnation, room=RoomInfo(free_bytes=1 << 40))
    run = new_run(plane, images)
    assert ask(plane, most) > 1000


def test_a_full_store_holds_a_run_up_with_a_reason_until_there_is_room(
    either_plane: Plane, images: Path
) -> None:
    plane = either_plane
    register(plane, Prong.CSD)
    run = new_run(plane, images, strategy="csd")
    wait_until(lambda: plane.sent)
    for _, lease in take_sent(plane):
        claim(plane, Prong.CSD, lease)
        full = Failure(lease=lease, reason="the drive is full; free some space", no_room=True)
        body = Reports(device="csd", failed=[full])
        ask(plane, lambda board, _, now, body=body: work.report(board, body, now))
    settle(plane)
    assert held_up(plane, run) == "csd rests: the drive is full; free some space"
    assert "the drive is full" in (feed(plane, run, 0, 0).waiting_for or "")
    pass_time(plane, 20)
    assert deliver(plane, run, 0, 1)
    settle(plane)
    assert held_up(plane, run) is None
    with plane.database.session() as session:
        events = list(session.scalars(select(AuditEvent.action).order_by(AuditEvent.id)))
    assert events.index("run.held_up") < events.index("run.goes_on")


def held_up(plane: Plane, run: uuid.UUID) -> str | None:
    with plane.database.session() as session:
        return runs.info(session, session.get_one(Run, run)).held_up


def test_what_trainers_read_is_added_up_by_path_and_reason(
    either_plane: Plane, images: Path
) -> None:
    plane = either_plane
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    for number in (1, 2, 2):  # the last one comes twice, as after a lost answer
        reads = [
            ReadInfo(path=ReadPath.MMAP, reason="tmpfs", batches=1, bytes=1000),
            ReadInfo(path=ReadPath.DIRECT, reason="no GDS: no driver", batches=2, bytes=5_000),
        ]
        account = TrainerAccount(number=number, reads=reads)
        request = FeedRequest(
            rank=0, session=SESSION, epoch=0, received=0, consumed=0, want=1, account=account
        )
        send(plane, run, request).result(10)
    pass_time(plane, 2)
    with plane.database.session() as session:
        found = figures.reads(session, [run])[run]
    assert [(r.path, r.reason, r.batches, r.bytes) for r in found] == [
        (ReadPath.DIRECT, "no GDS: no driver", 4, 10_000),
        (ReadPath.MMAP, "tmpfs", 2, 2000),
    ]


def test_joules_of_a_prong_are_unknown_as_soon_as_one_device_does_not_say(
    either_plane: Plane, images: Path
) -> None:
    plane = either_plane
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    deliver(plane, run, 0, 2)
    register(plane, Prong.CPU, power=PowerModel(active_w=None, source="nobody said"))
    deliver(plane, run, 2, 7)
    pass_time(plane, 5)
    with plane.database.session() as session:
        totals = figures.totals(session, [run])[run]
        assert totals["cpu"].images == 123
        [entry] = [found for found in figures.energy(totals) if found.source == "cpu"]
    assert (entry.joules, entry.provenance) == (None, "unavailable")
    assert "does not say what it draws" in entry.method


def test_a_drive_that_died_full_does_not_bound_the_runs_of_others(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CSD, name="dead", room=RoomInfo(free_bytes=1 << 20))
    plane.now += 60
    settle(plane)
    register(plane, Prong.CSD, room=RoomInfo(free_bytes=1 << 40))
    run = new_run(plane, images)
    limits = ask(plane, lambda board, *_: board.run(run).schedule.limits)
    assert limits.stored[Prong.CSD] > 1000
