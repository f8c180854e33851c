"""Does what devices and trainers do to a dispatcher, step by step."""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from ddlp.core.certificate import Certificate
from ddlp.core.energy import PowerModel
from ddlp.core.messages import (
    Attach,
    Begin,
    Claim,
    Claimed,
    Commit,
    DeviceRegister,
    Fed,
    FedBatch,
    FeedRequest,
    Lease,
    Reported,
    Reports,
    RunCreate,
    Taken,
    Where,
)
from ddlp.core.mishap import Mishap
from ddlp.core.pipeline import ENGINE
from ddlp.core.plan import Places
from ddlp.core.schedule import Death
from ddlp.core.sessions import Start
from ddlp.core.types import DeviceKind, Prong, RunState
from ddlp.server import (
    certificates,
    datasets,
    devices,
    rewinding,
    runs,
    session_start,
    sessions,
    work,
)
from ddlp.server.board import Board, TrainerSession
from ddlp.server.models import Run
from ddlp.server.rewinding import Rewind
from tests.conftest import wait_until
from tests.server.conftest import Plane

SESSION = uuid.uuid4()
PROCESS = 100
DEVICES = {Prong.CPU: DeviceKind.HOST, Prong.CSD: DeviceKind.EMULATED_CSD}


def register(plane: Plane, prong: Prong, **fields: Any) -> uuid.UUID:
    usual = {
        "name": prong.value,
        "prong": prong,
        "kind": DEVICES[prong],
        "slots": 1,
        "host": "here",
        "incarnation": uuid.uuid4(),
        "engine": ENGINE,
        "store": str(plane.settings.home / prong.value),
        "power": PowerModel(active_w=10, source="test"),
    }
    body = DeviceRegister(**{**usual, **fields})
    ask(plane, lambda board, session, now: devices.register(board, session, body, now))
    return body.incarnation


def ask(plane: Plane, action: Any) -> Any:
    return plane.dispatcher.call(action).result(60)


def hold(plane: Plane) -> Callable[[], None]:
    """Have the dispatcher stand still, so that what is asked meanwhile is one group."""
    held = threading.Event()
    plane.dispatcher.call(lambda *_: held.wait(10))
    return held.set


def settle(plane: Plane) -> None:
    """Let the dispatcher finish what it is at, and one group more."""
    ask(plane, lambda *_: None)
    ask(plane, lambda *_: None)


def new_run(plane: Plane, images: Path, **fields: Any) -> uuid.UUID:
    with plane.database.session() as session:
        known = [row.name for row in datasets.list_all(session)]
    if "fruit" not in known:
        plane.add_dataset(images, "fruit")
    with plane.database.session() as session:
        row = runs.create(session, RunCreate(**{"dataset": "fruit", "batch_size": 20, **fields}))
    ask(plane, lambda board, session, now: board.add_run(session, row))
    return row.id


def take_sent(plane: Plane) -> list[tuple[Prong, Lease]]:
    """The leases that were sent since this was last asked."""
    waiting, plane.sent[:] = list(plane.sent), []
    return [(prong, lease) for prong, leases in waiting for lease in leases]


def work_off(plane: Plane) -> int:
    """Do what a worker does with everything that was sent; returns how much that was."""
    waiting = take_sent(plane)
    for prong, lease in waiting:
        claim(plane, prong, lease)
        commit(plane, prong, lease)
    return len(waiting)


def claim(
    plane: Plane,
    prong: Prong,
    *leases: Lease,
    process: int = PROCESS,
    dead: int | None = None,
    death: Death | None = None,
) -> Claimed:
    body = Claim(device=prong.value, process=process, leases=list(leases), dead=dead, death=death)
    claimed: Claimed = ask(plane, lambda board, _, now: work.claim(board, body, now))
    return claimed


def commit(plane: Plane, prong: Prong, lease: Lease, *bad: Mishap, seconds: float = 2) -> Reported:
    """Say that a batch is made."""
    done = Commit(
        lease=lease,
        nbytes=4096,
        checksum=2**64 - 1,
        seconds=seconds,
        cpu_s=1,
        bad=list(bad),
    )
    body = Reports(device=prong.value, made=[done])
    reported: Reported = ask(plane, lambda board, _, now: work.report(board, body, now))
    return reported


def refusal(plane: Plane, prong: Prong, lease: Lease, *bad: Mishap) -> str:
    """Why a report that a batch is made is not taken."""
    [denied] = commit(plane, prong, lease, *bad).denied
    return denied.reason


def feed(
    plane: Plane, run: uuid.UUID, step: int, consumed: int, epoch: int = 0, rank: int = 0
) -> Fed:
    request = FeedRequest(
        rank=rank, session=SESSION, epoch=epoch, received=step, consumed=consumed, want=1
    )
    return send(plane, run, request).result(60)


def send(plane: Plane, run: uuid.UUID, request: FeedRequest) -> "Future[Fed]":
    """Send what a trainer asks; it holds its rank, and has begun."""

    def hold(board: Board, _: Session, now: float) -> int:
        active, rank = board.runs.get(run), request.rank
        if active is None or rank >= active.schedule.plan.world_size:
            return 0
        if rank not in active.sessions:
            ranks = active.schedule.plan.world_size
            active.hold(rank, TrainerSession(request.session, ranks, now, begun=True))
            active.schedule.join(rank, str(request.session), Start.BEGINNING)
        return active.sessions[rank].turn

    turn = ask(plane, hold)
    return plane.dispatcher.feed(run, request.model_copy(update={"turn": turn}))


def deliver(
    plane: Plane, run: uuid.UUID, start: int = 0, stop: int = 7, epoch: int = 0
) -> list[int]:
    """Take batches of an epoch as a trainer does."""
    order: list[int] = []
    for _ in range(100):
        step = start + len(order)
        if step == stop:
            return order
        fed = feed(plane, run, step, step, epoch)
        order += [batch.index for batch in fed.batches]
        if not fed.batches:
            work_off(plane)
    raise AssertionError(f"nothing comes: {fed.waiting_for}")


def attach(plane: Plane, run: uuid.UUID, who: Attach) -> tuple[Where, bool] | Taken:
    """Ask for a rank, as a trainer's process does first."""
    found: tuple[Where, bool] | Taken = ask(
        plane, lambda board, session, now: sessions.attach(board, session, board.run(run), who, now)
    )
    return found


def begin(
    plane: Plane, to: uuid.UUID, who: Attach, start: Start = Start.BEGINNING, **fields: Any
) -> Where:
    """Say how a session goes on, as a trainer's process does before its first batch."""
    body = Begin(rank=who.rank, session=who.session, attach=who, start=start, **fields)
    where: Where = ask(
        plane, lambda board, session, now: session_start.begin(board, session, to, body, now)
    )
    return where


def rewind(plane: Plane, run: uuid.UUID, position: int, **fields: Any) -> Where:
    """Go back as a trainer does that loads a checkpoint."""
    given = {"rank": 0, "session": SESSION, "world_size": 1, "epoch": 0, "position": position}
    body = Rewind(**{**given, **fields})
    where: Where = ask(
        plane, lambda board, session, now: rewinding.rewind(board, session, run, body, now)
    )
    return where


def state_of(plane: Plane, run: uuid.UUID) -> RunState:
    with plane.database.session() as session:
        return RunState(session.get_one(Run, run).state)


def reason_of(plane: Plane, run: uuid.UUID) -> str:
    with plane.database.session() as session:
        return session.get_one(Run, run).reason or ""


def certificate_of(plane: Plane, run: uuid.UUID, epoch: int = 0) -> Certificate:
    """What the ledger says of an epoch."""
    with plane.database.session() as session:
        return certificates.find(session, session.get_one(Run, run), epoch)


def pass_time(plane: Plane, seconds: float) -> None:
    """Let time pass while all devices give signs of life."""
    while seconds > 0:
        plane.now += min(seconds, 5.0)
        seconds -= 5.0
        ask(plane, _beat)
        settle(plane)


def _beat(board: Board, _: Session, now: float) -> None:
    for device in board.devices.values():
        device.last_seen_at = now


def race(plane: Plane, images: Path) -> tuple[uuid.UUID, Lease, Lease]:
    """A run of which both prongs make one batch: the drive has it, the CPU was put on it too."""
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    run = new_run(plane, images)
    wait_until(lambda: work_off(plane) and feed(plane, run, 0, 0).batches)
    held: dict[int, Lease] = {}
    for _ in range(20):
        for prong, lease in take_sent(plane):
            if lease.index in held:
                return run, held[lease.index], lease
            claim(plane, prong, lease)
            if prong is Prong.CSD:
                held[lease.index] = lease
            else:
                commit(plane, prong, lease)
        pass_time(plane, 1)
    raise AssertionError("nobody is put on what the drive has not finished")


@dataclass
class Job:
    """A training job: all its ranks take a step, then the next one."""

    plane: Plane
    run: uuid.UUID
    world_size: int = 1
    epoch: int = 0
    step: int = 0
    order: list[int] = field(default_factory=list)
    """The batches in the order of their delivery."""
    places: list[Places] = field(default_factory=list)
    """Where in the epoch's order the samples of each lie."""
    tokens: list[int] = field(default_factory=list)
    """Those of all leases, in the order in which they were sent."""
    between: Callable[[], None] = lambda: None
    """Done between any two things that happen."""
    _leased: dict[int, Places] = field(default_factory=dict)

    def take(self, steps: int) -> list[int]:
        """Each rank takes so many batches; returns them in the order of delivery."""
        for _ in range(steps):
            for rank in range(self.world_size):
                batch = self._next(rank)
                self.order.append(batch.index)
                self.places.append(self._leased[batch.token])
            self.step += 1
        return self.order[-steps * self.world_size :]

    def train(self, epoch: int, rounds: int) -> list[int]:
        """Take an epoch from its beginning to its end, and say so."""
        self.epoch, self.step = epoch, 0
        order = self.take(rounds)
        self.acknowledge()
        return order

    def acknowledge(self) -> None:
        """Say that all that was taken is used up."""
        for rank in range(self.world_size):
            self.between()
            feed(self.plane, self.run, self.step, self.step, self.epoch, rank)

    def rewind(self, position: int, epoch: int = 0) -> Where:
        """All ranks go to a place."""
        fields = {"world_size": self.world_size, "epoch": epoch}
        found = [
            rewind(self.plane, self.run, position, rank=rank, **fields)
            for rank in range(self.world_size)
        ]
        assert len({where.model_dump_json() for where in found}) == 1
        self.epoch, self.step = epoch, found[0].step
        return found[0]

    def work(self) -> None:
        """Make all that was sent."""
        for prong, lease in take_sent(self.plane):
            self.tokens.append(lease.token)
            self._leased[lease.token] = lease.places
            self.between()
            claim(self.plane, prong, lease)
            self.between()
            commit(self.plane, prong, lease)

    def _next(self, rank: int) -> FedBatch:
        for _ in range(100):
            self.between()
            fed = feed(self.plane, self.run, self.step, self.step, self.epoch, rank)
            if fed.batches:
                return fed.batches[0]
            self.work()
        raise AssertionError(f"nothing comes: {fed.waiting_for}")
