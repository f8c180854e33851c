"""What a worker process does with one message: claim, make, report, or leave it."""

import errno
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ddlp.core.energy import PowerModel
from ddlp.core.errors import BadSample, Conflict, NoRoom, NotFound, SystemFault, Unavailable
from ddlp.core.messages import Claim, Claimed, Denied, Granted, Lease, Reported, Reports
from ddlp.core.schedule import Made
from ddlp.core.store import FolderStore, StoreAddress
from ddlp.core.types import DeviceKind, Prong
from ddlp.workers.device import WorkerDevice
from ddlp.workers.tasks import Bench

RUN = uuid.uuid4()
DEVICE = WorkerDevice(
    name="cpu0",
    prong=Prong.CPU,
    kind=DeviceKind.HOST,
    slots=1,
    store=StoreAddress.given("/nowhere"),
    speed=1.0,
    power=PowerModel(active_w=1, source="test"),
)


def lease(index: int) -> Lease:
    return Lease(run=RUN, epoch=0, index=index, token=index + 1, places=((0, 1),))


class Server:
    """Grants leases unless a process holds them, as the real one does; keeps what it is told."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self.reports: list[Reports] = []
        self.held: dict[int, int] = {}
        """Which process has a lease, by index."""
        self.late: set[int] = set()
        """Which batches come too late."""
        self.lasts_s = 60.0
        self.error: Exception | None = None

    def __call__(self, _: str, **__: Any) -> "Server":
        return self

    def close(self) -> None:
        pass

    def post(self, path: str, body: Claim | Reports) -> Any:
        if isinstance(body, Reports):
            self.reports.append(body)
            late = [entry.lease for entry in body.made if entry.lease.index in self.late]
            denied = [Denied(lease=given, reason="too late") for given in late]
            return Reported(denied=denied).model_dump(mode="json")
        assert path == "/leases/claim"
        self.claims.append(body)
        if self.error is not None:
            raise self.error
        self.held = {i: process for i, process in self.held.items() if process != body.dead}
        denied = [
            Denied(lease=given, reason="it is being made", process=self.held[given.index])
            for given in body.leases
            if given.index in self.held
        ]
        granted = [
            Granted(lease=given, lasts_s=self.lasts_s)
            for given in body.leases
            if given.index not in self.held
        ]
        return Claimed(granted=granted, denied=denied).model_dump(mode="json")

    def told(self) -> tuple[list[int], list[int]]:
        """Which batches are said to be made, and which to have failed."""
        made = [entry.lease.index for sent in self.reports for entry in sent.made]
        return made, [entry.lease.index for sent in self.reports for entry in sent.failed]


class Maker:
    """Stands for the producer of a run."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.error: Exception | None = None

    def make(self, given: Lease, *_: float | None) -> Made:
        self.made.append(given.index)
        if self.error is not None:
            raise self.error
        return Made("cpu0", "", 1, 2, 0.1, 0.1)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def maker() -> Maker:
    return Maker()


@pytest.fixture
def handle(
    server: Server, maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[list[int], list[int]]]:
    """Gives a worker process a message with some leases, and tells what the server heard."""
    monkeypatch.setattr("ddlp.workers.tasks.Client", server)
    bench = Bench(DEVICE, "http://server")
    monkeypatch.setattr(bench, "_producer", lambda _: maker)

    def give(*indices: int) -> tuple[list[int], list[int]]:
        bench.handle([lease(index).model_dump(mode="json") for index in indices])
        bench.settle(10)
        return server.told()

    return give


Handle = Callable[..., tuple[list[int], list[int]]]


def test_all_leases_of_a_message_are_claimed_at_once_and_made_in_order(
    handle: Handle, server: Server, maker: Maker
) -> None:
    assert handle(3, 1, 2) == ([3, 1, 2], [])
    assert maker.made == [3, 1, 2]
    [claim] = server.claims
    assert [given.index for given in claim.leases] == [3, 1, 2]
    assert (claim.device, claim.process, claim.dead) == ("cpu0", os.getpid(), None)


def test_a_message_that_comes_five_times_is_made_once(
    handle: Handle, server: Server, maker: Maker
) -> None:
    for _ in range(5):
        handle(0, 1)
    assert maker.made == [0, 1]
    assert len(server.claims) == 1


def test_what_another_process_has_is_left_to_it(
    handle: Handle, server: Server, maker: Maker
) -> None:
    server.held = {0: os.getppid()}
    assert handle(0, 1) == ([1], [])
    assert len(server.claims) == 1


def dead_process() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_all_that_a_dead_process_had_is_claimed_again(
    handle: Handle, server: Server, maker: Maker
) -> None:
    dead = dead_process()
    server.held = {0: dead, 2: dead, 3: os.getppid()}
    made, failed = handle(0, 1, 2, 3)
    assert (sorted(made), failed) == ([0, 1, 2], [])
    assert [claim.dead for claim in server.claims] == [None, dead]


def test_each_dead_process_is_named(handle: Handle, server: Server, maker: Maker) -> None:
    first, second = dead_process(), dead_process()
    server.held = {0: first, 1: second}
    made, _ = handle(0, 1)
    assert sorted(made) == [0, 1]
    assert [claim.dead for claim in server.claims] == [None, first, second]


@pytest.mark.parametrize("error", [Unavailable("away"), Conflict("no"), NotFound("gone")])
def test_a_server_that_does_not_grant_is_left_alone(
    handle: Handle, server: Server, maker: Maker, error: Exception
) -> None:
    server.error = error
    assert handle(0) == ([], [])
    assert maker.made == []
    server.error = None
    assert handle(0) == ([0], []), "it can be had when the message comes again"


def test_a_lease_whose_time_is_up_is_not_begun(
    handle: Handle, server: Server, maker: Maker
) -> None:
    server.lasts_s = 0.0
    assert handle(0, 1) == ([], [])
    assert maker.made == []


@pytest.mark.parametrize(
    ("error", "permanent", "no_room"),
    [
        (BadSample("a.jpg is truncated"), True, False),
        (NoRoom("the store is full"), False, True),
        (Conflict("odd"), False, False),
        (SystemFault("open of /a/file failed with EMFILE"), False, False),
        (ZeroDivisionError("odder"), False, False),
    ],
)
def test_what_goes_wrong_is_said(
    handle: Handle, server: Server, maker: Maker, error: Exception, permanent: bool, no_room: bool
) -> None:
    maker.error = error
    assert handle(0) == ([], [0])
    [failure] = server.reports[0].failed
    assert str(error) in failure.reason
    assert (failure.permanent, failure.no_room) == (permanent, no_room)


@pytest.mark.parametrize("error", [NotFound("the run is gone"), Unavailable("away")])
def test_a_batch_that_nobody_can_be_told_of_is_dropped(
    handle: Handle, server: Server, maker: Maker, error: Exception
) -> None:
    maker.error = error
    assert handle(0, 1) == ([], [])
    assert maker.made == [0, 1]


def test_what_cannot_be_cleared_away_does_not_end_the_reports(
    handle: Handle, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(FolderStore, "discard", refuse)
    server.late = {0}
    assert handle(0) == ([0], [])
    assert handle(1) == ([0, 1], [])
