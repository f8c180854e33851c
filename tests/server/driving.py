"""Does what devices and trainers do to a dispatcher, step by step."""

import uuid
from pathlib import Path
from typing import Any

from ddlp.core.energy import PowerModel
from ddlp.core.messages import (
    Claim,
    Claimed,
    Commit,
    DeviceRegister,
    Fed,
    FeedRequest,
    Lease,
    RunCreate,
)
from ddlp.core.mishap import Mishap
from ddlp.core.pipeline import ENGINE
from ddlp.core.types import DeviceKind, Prong, RunState
from ddlp.server import datasets, devices, runs
from ddlp.server.models import Run
from tests.server.conftest import Plane

SESSION = uuid.uuid4()
DEVICES = {Prong.CPU: DeviceKind.HOST, Prong.CSD: DeviceKind.EMULATED_CSD}


def register(plane: Plane, prong: Prong, host: str = "here", engine: str = ENGINE) -> uuid.UUID:
    body = DeviceRegister(
        name=prong.value,
        prong=prong,
        kind=DEVICES[prong],
        slots=1,
        host=host,
        incarnation=uuid.uuid4(),
        engine=engine,
        store=str(plane.settings.home / prong.value),
        power=PowerModel(active_w=10, source="test"),
    )
    ask(plane, lambda board, session, now: devices.register(board, session, body, now))
    return body.incarnation


def ask(plane: Plane, action: Any) -> Any:
    return plane.dispatcher.call(action).result(10)


def new_run(plane: Plane, images: Path, **fields: Any) -> uuid.UUID:
    with plane.database.session() as session:
        known = [row.name for row in datasets.list_all(session)]
    if "fruit" not in known:
        plane.add_dataset(images, "fruit")
    with plane.database.session() as session:
        row = runs.create(session, RunCreate(dataset="fruit", batch_size=20, **fields))
    ask(plane, lambda board, session, now: board.add_run(session, row))
    return row.id


def work_off(plane: Plane) -> int:
    """Do what a worker does with everything that was sent; returns how much that was."""
    waiting, plane.sent[:] = list(plane.sent), []
    for prong, lease in waiting:
        claim(plane, prong, lease)
        commit(plane, prong, lease)
    return len(waiting)


def claim(plane: Plane, prong: Prong, lease: Lease) -> Claimed:
    body = Claim(lease=lease, device=prong.value)
    claimed: Claimed = ask(plane, lambda board, _, now: board.claim(body, now))
    return claimed


def commit(plane: Plane, prong: Prong, lease: Lease, *bad: Mishap) -> None:
    done = Commit(
        lease=lease,
        device=prong.value,
        nbytes=4096,
        checksum=2**64 - 1,
        seconds=2,
        cpu_s=1,
        bad=list(bad),
    )
    ask(plane, lambda board, _, now: board.commit(done, now))


def feed(plane: Plane, run: uuid.UUID, step: int, consumed: int, epoch: int = 0) -> Fed:
    request = FeedRequest(
        rank=0, session=SESSION, epoch=epoch, received=step, consumed=consumed, want=1
    )
    return plane.dispatcher.feed(run, request).result(10)


def deliver(plane: Plane, run: uuid.UUID, start: int = 0, stop: int = 7) -> list[int]:
    """Take batches of the first epoch as a trainer does."""
    order: list[int] = []
    while start + len(order) < stop:
        step = start + len(order)
        fed = feed(plane, run, step, step)
        order += [batch.index for batch in fed.batches]
        if not fed.batches:
            work_off(plane)
    return order


def state_of(plane: Plane, run: uuid.UUID) -> RunState:
    with plane.database.session() as session:
        return RunState(session.get_one(Run, run).state)
