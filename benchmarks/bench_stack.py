"""The real stack as benchmarks use it: started in this process tree, with datasets."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from ddlp.cli.scan import follow_scan
from ddlp.cli.up import Stack
from ddlp.core.client import Client
from ddlp.core.settings import Settings
from ddlp.loader import DualLoader
from ddlp.server.database import Database
from ddlp.server.models import BatchRow, Run


@dataclass(frozen=True)
class BenchStack:
    """A stack that is up."""

    stack: Stack
    client: Client

    def make_run(self, **fields: Any) -> str:
        """A run over a dataset, the one called `data` where none is named; its name."""
        return str(self.client.post("/runs", {"dataset": "data", **fields})["name"])

    def take(self, run: str, **options: Any) -> int:
        """Take all batches of a run, and do nothing with them; how many there were."""
        taken = 0
        with DualLoader(run=run, url=self.stack.url, normalize=False, **options) as loader:
            while loader.epoch < loader.epochs:
                taken += sum(1 for _ in loader)
        return taken

    def committed(self, run: str) -> list[BatchRow]:
        """The ledger's entries of a run, in the order of their commits."""
        database = Database(self.stack.settings.database)
        try:
            with database.session() as session:
                query = select(BatchRow).join(Run, Run.id == BatchRow.run_id)
                return list(
                    session.scalars(query.where(Run.name == run).order_by(BatchRow.ready_at))
                )
        finally:
            database.close()


@contextmanager
def bench_stack(home: Path, *datasets: Path, **settings: Any) -> Iterator[BenchStack]:
    """Everything on this machine; datasets are called `data`, `data-1` and so on."""
    roots = [path.parent for path in datasets]
    with (
        Stack(Settings(home=home, port=0, dataset_roots=roots, **settings)) as stack,
        Client(stack.url) as client,
    ):
        for number, path in enumerate(datasets):
            name = f"data-{number}" if number else "data"
            client.post("/datasets", {"uri": str(path), "name": name})
            follow_scan(client, name)
        yield BenchStack(stack, client)


def span_s(rows: list[BatchRow]) -> float:
    """From the first commit to the last."""
    first, last = rows[0].ready_at, rows[-1].ready_at
    assert first is not None
    assert last is not None
    return last - first
