"""How much of the engine's speed does a real worker keep at large batches?

    python -m benchmarks worker_rate

`ddlp up` with one CPU worker and strategy `cpu` makes batches of 256 for a consumer that only takes
them. Its rate is read from the ledger, from commit to commit, once it runs steadily; beside it the
bare engine makes the same samples in a process of its own, which stands still while the stack is
measured. A ratio of 1 means that leases, messages, files, checksums and commits cost nothing.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from benchmarks import photos
from benchmarks.contest import Entry, Line
from benchmarks.report import Report, interleave
from benchmarks.task import IMAGENET_TRAIN, Task
from ddlp.cli.scan import follow_scan
from ddlp.cli.up import Stack
from ddlp.core.client import Client
from ddlp.core.settings import Settings
from ddlp.loader import DualLoader
from ddlp.server.database import Database
from ddlp.server.models import BatchRow, Run

_SKIPPED = 2
"""Commits until a worker has opened the index and its files are used again."""
_ENGINE = Entry("bare engine", "ddlp", "late")


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    batch: int = 256
    batches: int = 24
    rounds: int = 5
    real: bool = True


QUICK = Scale(batches=6, rounds=1)


def measure(quick: bool) -> Report:
    """Images a second."""
    return measure_at(QUICK if quick else Scale())


def measure_at(scale: Scale) -> Report:
    """One round of the bare engine, then one of the stack, and so on."""
    with tempfile.TemporaryDirectory() as scratch:
        found = photos.arrange(Path(scratch), scale.batch * scale.batches, scale.real)
        report = Report(
            question="How much of the engine's speed does a Celery worker keep? "
            f"(batch {scale.batch})",
            data=found.about,
            unit="images/s",
            baseline=_ENGINE.name,
            notes=["one worker process, strategy cpu; worker: from commit to commit"],
        )
        settings = Settings(
            home=Path(scratch) / "home",
            port=0,
            dataset_roots=[found.root],
            cpu_workers=1,
            csd_devices=0,
        )
        engine = Line(_ENGINE, _task(scale, found, scratch))
        try:
            with Stack(settings) as stack, Client(stack.url) as client:
                client.post("/datasets", {"uri": str(found.root), "name": "photos"})
                follow_scan(client, "photos")
                worker = _Worker(stack, client, scale.batch)
                ways = {_ENGINE.name: lambda: _rate(engine), "Celery worker": worker.rate}
                interleave(report, ways, scale.rounds)
        finally:
            engine.close()
        report.beside["ms a batch outside of making it"] = {"Celery worker": worker.gaps_ms}
        return report


def _task(scale: Scale, found: photos.Photos, scratch: str) -> Task:
    """The engine may use any core, as the worker may."""
    return Task(
        contestant=_ENGINE.contestant,
        variant=_ENGINE.variant,
        job=IMAGENET_TRAIN,
        data=str(found.root),
        images=scale.batch * scale.batches,
        different=found.different,
        batch=scale.batch,
        cores=tuple(sorted(os.sched_getaffinity(0))),
        scratch=scratch,
    )


def _rate(line: Line) -> float:
    outcome = line.round()
    return outcome.images / outcome.wall_s


class _Worker:
    """The stack's one worker, a run a round."""

    def __init__(self, stack: Stack, client: Client, batch: int) -> None:
        self._stack = stack
        self._client = client
        self._batch = batch
        self.gaps_ms: list[float] = []

    def rate(self) -> float:
        """Have an epoch made and taken; the rate between its commits."""
        body = {"dataset": "photos", "batch_size": self._batch, "strategy": "cpu"}
        run = self._client.post("/runs", body)["name"]
        with DualLoader(run=run, url=self._stack.url, normalize=False) as loader:
            for _ in loader:
                pass
        rows = self._committed(run)
        first, steady = rows[_SKIPPED], rows[_SKIPPED + 1 :]
        assert first.ready_at is not None
        assert steady[-1].ready_at is not None
        span_s = steady[-1].ready_at - first.ready_at
        making_s = sum(row.seconds for row in steady)
        self.gaps_ms.append(1000 * (span_s - making_s) / len(steady))
        return sum(row.samples for row in steady) / span_s

    def _committed(self, run: str) -> list[BatchRow]:
        """The ledger's entries of a run, in the order of their commits."""
        database = Database(self._stack.settings.database)
        try:
            with database.session() as session:
                query = select(BatchRow).join(Run, Run.id == BatchRow.run_id)
                return list(
                    session.scalars(query.where(Run.name == run).order_by(BatchRow.ready_at))
                )
        finally:
            database.close()
