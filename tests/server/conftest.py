"""A server's parts in this process: the real database, and a broker that only listens."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from ddlp.core.dataset import scan
from ddlp.core.messages import DatasetCreate, Lease
from ddlp.core.settings import Settings
from ddlp.core.types import Prong
from ddlp.server import datasets
from ddlp.server.board import Board
from ddlp.server.database import Database, connect, migrate
from ddlp.server.dispatcher import Dispatcher
from ddlp.server.models import Base


class Plane:
    """A dispatcher over a real database; what it would send to the queues is kept."""

    def __init__(self, home: Path, images: Path, database_url: str | None = None) -> None:
        self.scratch = home.parent / "scratch"
        self.scratch.mkdir()
        roots = [images, self.scratch]
        self.settings = Settings(
            home=home, dataset_roots=roots, cpu_store=str(home / "cpu"), database_url=database_url
        )
        self.database = Database(self.settings.database)
        migrate(self.database.engine)
        self.sent: list[tuple[Prong, list[Lease]]] = []
        self.now = 1000.0
        self.clock: Callable[[], float] | None = lambda: self.now
        self.dispatcher = self.begin()

    def begin(self) -> Dispatcher:
        """Start a dispatcher on what the database holds."""
        self.dispatcher = Dispatcher(
            self.database,
            Board(self.settings),
            lambda prong, leases: self.sent.append((prong, leases)),
            clock=self.clock,
        )
        self.dispatcher.start()
        return self.dispatcher

    def add_dataset(self, images: Path, name: str) -> None:
        """Register a dataset and scan it at once."""
        with self.database.session() as session:
            row = datasets.add(session, self.settings, DatasetCreate(uri=str(images), name=name))
            scan(Path(row.uri), Path(row.index_path))
            datasets.finish(session, row.id)

    def restart(self) -> None:
        """What a crash and a new start come to; messages on their way stay so."""
        self.dispatcher.stop()
        self.begin()

    def stop(self) -> None:
        """End for good."""
        self.dispatcher.stop()
        self.database.close()


@pytest.fixture
def plane(tmp_path: Path, images: Path) -> Iterator[Plane]:
    found = Plane(tmp_path / "home", images)
    yield found
    found.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def either_plane(request: pytest.FixtureRequest, tmp_path: Path, images: Path) -> Iterator[Plane]:
    """A plane on a database of each kind."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    found = Plane(tmp_path / "home", images, url)
    yield found
    found.dispatcher.stop()
    clear(found.database.engine)
    found.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        found = connect(f"sqlite:///{tmp_path}/test.db")
    else:
        found = connect(request.getfixturevalue("postgres_url"))
    yield found
    clear(found)
    found.dispose()


def clear(engine: Engine) -> None:
    """Leave nothing in a database that the next test shares."""
    Base.metadata.drop_all(engine)
    with engine.begin() as connection:
        connection.execute(text("drop table if exists alembic_version"))
