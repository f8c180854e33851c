"""The tables of a run as files: read page by page, and read back with their values and types."""

import csv
import io
import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import event

from ddlp.core.errors import InvalidInput, Unavailable
from ddlp.core.tables import Form, json_text
from ddlp.core.types import Prong
from ddlp.server import exports
from ddlp.server.exports import Export, What
from ddlp.server.models import BadSample, BatchRow, Epoch, Rollup, RunRead
from ddlp.server.problems import tell
from ddlp.server.routes import exports as route
from tests.server.conftest import Plane
from tests.server.driving import deliver, new_run, register, settle

ASKED_FOR = [
    "epoch",
    "index",
    "state",
    "prong",
    "device",
    "position",
    "from_tail",
    "samples",
    "bad",
    "nbytes",
    "seconds",
    "cpu_s",
    "leased_at",
    "ready_at",
    "attempt",
    "failures",
    "losses",
    "isolated",
]


@pytest.fixture
def run(plane: Plane, images: Path) -> uuid.UUID:
    """A run of which one epoch was delivered."""
    register(plane, Prong.CPU)
    found = new_run(plane, images, name="r50", epochs=2)
    deliver(plane, found)
    settle(plane)
    return found


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    """A server that exports."""
    app = FastAPI()
    app.state.context = SimpleNamespace(database=plane.database)
    app.include_router(route.router, prefix="/api/v1")
    app.add_exception_handler(InvalidInput, tell)
    app.add_exception_handler(Unavailable, tell)
    with TestClient(app) as found:
        yield found


def rows(plane: Plane, run: uuid.UUID, what: What, period_s: int | None = None) -> list[Any]:
    """An export as JSON has it."""
    table = exports.table(plane.database, Export(run, what, period_s))
    found: list[Any] = json.loads("".join(json_text(table)))
    return found


def add_rollups(plane: Plane, run: uuid.UUID, count: int) -> None:
    """Seconds of a run, written down in another order than that of their time."""
    with plane.database.session() as session:
        session.add_all(_rollup(run, at) for at in reversed(range(count)))


def _rollup(run: uuid.UUID, at: int, **fields: Any) -> Rollup:
    """A second with every figure that there is."""
    usual = {"run_id": run, "at": at, "period_s": 1, "source": "cpu"}
    figures = {
        column.name: 0.1 * at if column.type.python_type is float else at
        for column in Rollup.__table__.columns
        if column.name not in {"id", *usual} and column.type.python_type in (int, float)
    }
    return Rollup(**{**figures, **usual, **fields})


def test_batches_are_exported_with_what_is_known_of_each(plane: Plane, run: uuid.UUID) -> None:
    found = rows(plane, run, What.BATCHES)
    first = [batch for batch in found if batch["epoch"] == 0]
    assert [batch["index"] for batch in first] == list(range(7))
    assert list(found[0])[: len(ASKED_FOR)] == ASKED_FOR
    assert {batch["device"] for batch in first} == {"cpu"}
    assert sum(batch["samples"] for batch in first) == 123
    assert all(batch["seconds"] == 2.0 for batch in first)
    assert {type(batch["from_tail"]) for batch in first} == {bool}
    hidden = {"run_id", "token", "deadline", "location", "checksum"}
    assert not hidden & set(found[0])


def test_figures_that_are_added_to_batches_appear_by_themselves() -> None:
    names = set(_names(What.BATCHES))
    for column in BatchRow.__table__.columns:
        if column.name not in {"token", "deadline"} and _is_number(column):
            assert column.name in names


def test_all_figures_of_a_series_are_exported_in_order_of_time(plane: Plane, images: Path) -> None:
    run = new_run(plane, images)
    add_rollups(plane, run, 25)
    found = rows(plane, run, What.SERIES)
    assert [row["at"] for row in found] == list(range(25))
    numbers = {c.name for c in Rollup.__table__.columns if _is_number(c)} - {"id"}
    assert set(found[0]) == numbers | {"source"}
    assert list(found[0])[:3] == ["at", "period_s", "source"]
    assert found[7]["busy_s"] == 0.1 * 7


def test_a_series_can_be_had_by_period(plane: Plane, images: Path) -> None:
    run = new_run(plane, images)
    with plane.database.session() as session:
        session.add_all(_rollup(run, 60, period_s=period) for period in (1, 10, 60))
    for period in (1, 10, 60):
        [row] = rows(plane, run, What.SERIES, period)
        assert row["period_s"] == period
    [row] = rows(plane, run, What.SERIES)
    assert row["period_s"] == 1


def test_a_series_is_of_the_finest_period_that_reaches_back_to_the_beginning(
    plane: Plane, images: Path
) -> None:
    run = new_run(plane, images)
    with plane.database.session() as session:
        for period, first in ((60, 600), (10, 600), (1, 7000)):  # seconds are forgotten first
            for at in range(first, 7200, period):
                session.add(_rollup(run, at, period_s=period))
    found = rows(plane, run, What.SERIES)
    assert {row["period_s"] for row in found} == {10}
    assert [row["at"] for row in found] == list(range(600, 7200, 10))


@pytest.mark.parametrize(("what", "period_s"), [(What.SERIES, 5), (What.BATCHES, 10)])
def test_a_period_that_there_is_not_is_refused(what: What, period_s: int) -> None:
    with pytest.raises(InvalidInput, match="period"):
        Export(uuid.uuid4(), what, period_s)


def test_epochs_bad_samples_and_reads_are_exported(plane: Plane, run: uuid.UUID) -> None:
    with plane.database.session() as session:
        session.add(RunRead(run_id=run, path="mmap", reason="near", batches=3, bytes=4096))
        for sample, substitute in ((3, None), (4, 9)):
            session.add(
                BadSample(
                    run_id=run,
                    epoch=0,
                    batch=1,
                    sample=sample,
                    name="=ä.jpg",
                    reason="broken",
                    substitute=substitute,
                )
            )
    epochs = rows(plane, run, What.EPOCHS)
    assert [epoch["number"] for epoch in epochs] == list(range(len(epochs)))
    assert epochs[0]["made_cpu"] == 7
    scalars = {c.name for c in Epoch.__table__.columns} - {"run_id"}
    assert set(epochs[0]) == scalars - {"segments", "acknowledged", "settled", "sessions", "origin"}
    assert rows(plane, run, What.READS) == [
        {"path": "mmap", "reason": "near", "batches": 3, "bytes": 4096}
    ]
    shared = {"epoch": 0, "batch": 1, "name": "=ä.jpg", "reason": "broken"}
    assert rows(plane, run, What.BAD_SAMPLES) == [
        shared | {"sample": 3, "substitute": None},
        shared | {"sample": 4, "substitute": 9},
    ]


def test_other_runs_are_left_out(plane: Plane, images: Path) -> None:
    mine, other = new_run(plane, images), new_run(plane, images)
    add_rollups(plane, other, 3)
    assert rows(plane, mine, What.SERIES) == []


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20, 25])
def test_rows_are_read_in_pages(
    plane: Plane, images: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(exports, "_PAGE_ROWS", 10)
    run = new_run(plane, images)
    add_rollups(plane, run, count)
    settle(plane)
    asked: list[str] = []
    event.listen(
        plane.database.engine,
        "before_cursor_execute",
        lambda *call: asked.append(call[2]) if "rollups" in call[2] else None,
    )
    table = iter(exports.table(plane.database, Export(run, What.SERIES)).rows)
    assert asked == [], "nothing is read before it is asked for"
    assert [row[0] for row in table] == list(range(count))
    bounds, *pages = asked
    assert "min(" in bounds
    assert len(pages) == count // 10 + 1
    assert all("LIMIT" in statement for statement in pages)


def test_rows_of_the_same_time_are_not_lost_between_pages(
    plane: Plane, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_PAGE_ROWS", 2)
    run = new_run(plane, images)
    sources = ["cpu", "csd", "trainer"]
    with plane.database.session() as session:
        session.add_all(_rollup(run, at, source=name) for at in range(4) for name in sources)
    found = rows(plane, run, What.SERIES)
    assert [(row["at"], row["source"]) for row in found] == [
        (at, name) for at in range(4) for name in sources
    ]


@pytest.mark.parametrize("what", What)
@pytest.mark.parametrize("count", [1, 3])
def test_pages_work_on_both_databases(
    either_plane: Plane, images: Path, monkeypatch: pytest.MonkeyPatch, what: What, count: int
) -> None:
    monkeypatch.setattr(exports, "_PAGE_ROWS", 2)
    register(either_plane, Prong.CPU)
    run = new_run(either_plane, images, epochs=count)
    for epoch in range(count):
        deliver(either_plane, run, epoch=epoch)
    settle(either_plane)
    with either_plane.database.session() as session:
        session.add_all(_rollup(run, 10**6 + at) for at in range(5))
        for name in ("a", "b", "c"):
            session.add(RunRead(run_id=run, path="mmap", reason=name, batches=1, bytes=1))
    found = rows(either_plane, run, what)
    assert len(found) == len({json.dumps(row) for row in found})
    if what is What.BATCHES:
        assert len(found) == 7 * count


# Over HTTP


def get(client: TestClient, query: str) -> Any:
    return client.get(f"/api/v1/runs/r50/export?{query}")


def test_the_three_forms_hold_the_same(plane: Plane, run: uuid.UUID, client: TestClient) -> None:
    expected = rows(plane, run, What.BATCHES)
    as_json = get(client, "what=batches&format=json")
    assert as_json.json() == expected
    as_csv = list(csv.DictReader(io.StringIO(get(client, "what=batches&format=csv").text)))
    assert [row["seconds"] for row in as_csv] == [repr(row["seconds"]) for row in expected]
    assert [row["position"] for row in as_csv] == [
        "" if row["position"] is None else str(row["position"]) for row in expected
    ]
    parquet = get(client, "what=batches&format=parquet")
    table = pyarrow.parquet.read_table(io.BytesIO(parquet.content))
    assert table.to_pylist() == expected
    kinds = {"index": "int64", "seconds": "double", "state": "string", "isolated": "bool"}
    assert {name: str(table.schema.field(name).type) for name in kinds} == kinds


@pytest.mark.parametrize(
    ("form", "media_type"),
    [
        ("csv", "text/csv; charset=utf-8"),
        ("json", "application/json"),
        ("parquet", "application/vnd.apache.parquet"),
    ],
)
def test_a_file_says_what_it_is(
    run: uuid.UUID, client: TestClient, form: str, media_type: str
) -> None:
    answer = get(client, f"what=epochs&format={form}")
    assert answer.headers["content-type"] == media_type
    assert answer.headers["content-disposition"] == (f'attachment; filename="r50-epochs.{form}"')
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "query",
    ["what=secrets", "format=xml", "what=series&period=7", "what=epochs&period=10", "period=x"],
)
def test_what_there_is_not_is_refused(run: uuid.UUID, client: TestClient, query: str) -> None:
    assert get(client, query).status_code == 422


def test_pages_of_other_sites_cannot_have_files_made(run: uuid.UUID, client: TestClient) -> None:
    answer = client.get("/api/v1/runs/r50/export", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403


def test_without_pyarrow_there_is_no_broken_file(
    run: uuid.UUID, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = get(client, "format=parquet")
    assert answer.status_code == 503
    assert "ddlp[parquet]" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("run_name", "expected"),
    [
        ("r50", "r50-reads.csv"),
        ('a"; filename="b', "a___filename__b-reads.csv"),
        ("../ä\r\n", "____-reads.csv"),
    ],
)
def test_the_name_of_a_file_is_harmless(run_name: str, expected: str) -> None:
    assert exports.file_name(run_name, What.READS, Form.CSV) == expected


def _names(what: What) -> list[str]:
    database: Any = None
    return exports.table(database, Export(uuid.uuid4(), what)).names


def _is_number(column: Any) -> bool:
    return column.type.python_type in (int, float)
