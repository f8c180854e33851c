"""Is the page of a run with a million batches as fast as that of one with a thousand?

    python -m benchmarks run_page

Two runs that are over lie in the same database, with batches, epochs, tallies and figures over
time as such runs leave them. Their pages, their reports and the series behind the chart are asked
for in turns, over HTTP on this machine.
"""

import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from sqlalchemy import insert, select, update

from benchmarks import small_pictures
from benchmarks.bench_stack import BenchStack, bench_stack
from benchmarks.report import Report, Reports, interleave
from ddlp.server.database import Database
from ddlp.server.models import BatchRow, Epoch, Rollup, Run, Tally

_AT_ONCE = 20_000
_EPOCHS = 10
_PATHS = {
    "page": "/runs/{run}",
    "report": "/api/v1/runs/{run}/report",
    "series": "/api/v1/runs/{run}/series?points=1000",
}


@dataclass(frozen=True)
class Scale:
    """How many batches the two runs have."""

    few: int = 1_000
    many: int = 1_000_000
    rounds: int = 15


def measure(quick: bool) -> Reports:
    """Milliseconds to answer, by size of the run."""
    return measure_at(Scale(100, 2_000, 2) if quick else Scale())


def measure_at(scale: Scale) -> Reports:
    """Each page in turn."""
    with tempfile.TemporaryDirectory() as scratch:
        images, _ = small_pictures.arrange(Path(scratch), 64)
        with bench_stack(Path(scratch) / "home", images, csd_devices=0) as stack:
            runs = {f"{size:,} batches": _fill(stack, size) for size in (scale.few, scale.many)}
            return Reports([_part(stack, what, runs, scale) for what in _PATHS])


def _part(stack: BenchStack, what: str, runs: dict[str, str], scale: Scale) -> Report:
    report = Report(
        question=f"How long does the {what} of a run take to be answered?",
        data=f"runs of {' and '.join(runs)} in {_EPOCHS} epochs, over; SQLite",
        unit="ms",
        baseline=next(iter(runs)),
    )
    ways = {
        name: lambda run=run: _ask(stack, _PATHS[what].format(run=run))
        for name, run in runs.items()
    }
    for ask in ways.values():
        ask()
    return interleave(report, ways, scale.rounds)


def _ask(stack: BenchStack, path: str) -> float:
    started_s = time.perf_counter()
    answer = _get(stack.stack.url + path)
    assert answer
    return 1000 * (time.perf_counter() - started_s)


def _get(url: str) -> bytes:
    """The body of an answer, over a connection of its own as a browser's first request is."""
    with urlopen(url) as answer:
        body: bytes = answer.read()
    return body


def _fill(stack: BenchStack, batches: int) -> str:
    """A run as one with so many batches leaves it."""
    name = stack.make_run(batch_size=8, epochs=1, strategy="cpu", pipeline="cifar-train")
    stack.take(name)
    database = Database(stack.stack.settings.database)
    try:
        with database.session() as session:
            run = session.scalars(select(Run).where(Run.name == name)).one()
            batch = session.scalars(select(BatchRow).where(BatchRow.run_id == run.id)).first()
            epoch = session.scalars(select(Epoch).where(Epoch.run_id == run.id)).one()
            tallies = session.scalars(select(Tally).where(Tally.run_id == run.id)).all()
            rollup = session.scalars(select(Rollup).where(Rollup.run_id == run.id)).first()
            assert batch is not None
            assert rollup is not None
            rows = [_values(row) for row in (batch, epoch, rollup)]
            session.execute(update(Run).where(Run.id == run.id).values(epochs=_EPOCHS))
            for number in range(1, _EPOCHS):
                values = rows[1] | {"number": number, "batches": batches // _EPOCHS}
                session.execute(insert(Epoch).values(values))
                for tally in tallies:
                    session.execute(insert(Tally).values(_values(tally) | {"epoch": number}))
        _spread(database, run.id, rows[0], batches)
        _last(database, rows[2], batches)
    finally:
        database.close()
    return name


def _spread(database: Database, run: uuid.UUID, row: dict[str, object], batches: int) -> None:
    """Batches, a few thousand in a transaction."""
    each = batches // _EPOCHS
    for epoch in range(1, _EPOCHS):
        for first in range(0, each, _AT_ONCE):
            indexes = range(first, min(each, first + _AT_ONCE))
            rows = [row | {"epoch": epoch, "index": i, "position": i} for i in indexes]
            with database.session() as session:
                session.execute(insert(BatchRow), rows)


def _last(database: Database, row: dict[str, object], batches: int) -> None:
    """Figures over time: a hundred batches were made a second."""
    at = int(str(row["at"]))
    for period_s in (1, 10, 60):
        times = range(at + 60, at + 60 + max(60, batches // 100), period_s)
        new = {"period_s": period_s}
        plain = {name: value for name, value in row.items() if name != "id"}
        rows = [plain | new | {"at": second - second % period_s} for second in times]
        unique = list({(entry["at"], period_s): entry for entry in rows}.values())
        for first in range(0, len(unique), _AT_ONCE):
            with database.session() as session:
                session.execute(insert(Rollup), unique[first : first + _AT_ONCE])


def _values(row: object) -> dict[str, object]:
    table = type(row).__table__  # type: ignore[attr-defined]
    return {column.name: getattr(row, column.name) for column in table.columns}
