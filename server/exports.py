"""Reads the tables of a run for export: page by page, so that neither side ever holds all of it.

Each page is read in a session of its own: a slow reader keeps nothing open. While a run goes on, a
row is as it was when its page was read.
"""

import re
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, BinaryIO, cast

from sqlalchemy import Column as SqlColumn
from sqlalchemy import Select, select, tuple_

from ddlp.core.errors import InvalidInput
from ddlp.core.tables import (
    Column,
    Form,
    Kind,
    Row,
    Table,
    csv_text,
    json_text,
    load_pyarrow,
    write_parquet,
)
from ddlp.server.database import Database
from ddlp.server.figures import finest_period
from ddlp.server.models import BadSample, Base, BatchRow, Epoch, Rollup, RunRead
from ddlp.server.telemetry import PERIODS_S

_PAGE_ROWS = 2000
_CHUNK_BYTES = 1 << 20
_KINDS: tuple[Kind, ...] = (int, float, str, bool)
_NUMBERS: tuple[Kind, ...] = (int, float)
_INTERNAL = frozenset({"id", "run_id", "token", "deadline"})


class What(StrEnum):
    """What of a run is exported."""

    BATCHES = "batches"
    SERIES = "series"
    EPOCHS = "epochs"
    BAD_SAMPLES = "bad-samples"
    READS = "reads"


@dataclass(frozen=True)
class _Source:
    """Where an export comes from: which columns come first, and by which its rows are ordered."""

    model: type[Base]
    first: tuple[str, ...]
    order: tuple[str, ...]
    rest: tuple[Kind, ...] = _NUMBERS
    """The kinds of further columns that are exported, so that new ones appear by themselves."""

    @property
    def columns(self) -> list[SqlColumn[Any]]:
        """What is exported, in order."""
        known = {column.name: column for column in self.model.__table__.columns}
        rest = [
            column
            for name, column in known.items()
            if name not in _INTERNAL | set(self.first) and _kind(column) in self.rest
        ]
        return [cast(SqlColumn[Any], column) for column in [*map(known.get, self.first), *rest]]

    @property
    def keys(self) -> list[SqlColumn[Any]]:
        """What tells rows of a run apart, in the order in which they are exported."""
        return [cast(SqlColumn[Any], self.model.__table__.columns[name]) for name in self.order]


_BATCHES = (
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
)
_SOURCES = {
    What.BATCHES: _Source(BatchRow, _BATCHES, ("epoch", "index")),
    What.SERIES: _Source(Rollup, ("at", "period_s", "source"), ("at", "id")),
    What.EPOCHS: _Source(Epoch, ("number", "state"), ("number",)),
    What.BAD_SAMPLES: _Source(
        BadSample, ("epoch", "batch", "sample", "name", "reason", "substitute"), ("id",)
    ),
    What.READS: _Source(RunRead, ("path", "reason"), ("path", "reason")),
}


@dataclass(frozen=True)
class Export:
    """What is wanted, of which run."""

    run_id: uuid.UUID
    what: What
    period_s: int | None = None

    def __post_init__(self) -> None:
        if self.period_s is None:
            return
        if self.what is not What.SERIES:
            raise InvalidInput(f"a period is only for series, not for {self.what}; leave it out")
        if self.period_s not in PERIODS_S:
            raise InvalidInput(f"there are no periods of {self.period_s} s; choose 1, 10 or 60")


def table(database: Database, wanted: Export) -> Table:
    """The table that is exported; its rows are read as they are asked for."""
    source = _SOURCES[wanted.what]
    columns = [Column(column.name, _kind(column) or str) for column in source.columns]
    return Table(columns, _rows(database, source, wanted))


def _rows(database: Database, source: _Source, wanted: Export) -> Iterator[Row]:
    """All rows, page after page: each begins after the last row of the one before."""
    width, keys = len(source.columns), source.keys
    query = _query(source, _of_one_period(database, wanted))
    after: Sequence[Any] | None = None
    while True:
        page = query if after is None else query.where(tuple_(*keys) > tuple_(*after))
        with database.session() as session:
            rows = session.execute(page.limit(_PAGE_ROWS)).all()
        yield from (tuple(row[:width]) for row in rows)
        if len(rows) < _PAGE_ROWS:
            return
        after = rows[-1][width:]


def _of_one_period(database: Database, wanted: Export) -> Export:
    """The same; a series is of one period, since each holds all that the others do."""
    if wanted.what is not What.SERIES or wanted.period_s is not None:
        return wanted
    with database.session() as session:
        return replace(wanted, period_s=finest_period(session, wanted.run_id))


def _query(source: _Source, wanted: Export) -> Select[Any]:
    # The keys come once more at the end, since not all of them are exported.
    named = [key.label(f"key_{number}") for number, key in enumerate(source.keys)]
    mine = source.model.__table__.columns["run_id"] == wanted.run_id
    query = select(*source.columns, *named).where(mine).order_by(*source.keys)
    if wanted.period_s is None:
        return query
    return query.where(Rollup.period_s == wanted.period_s)


def _kind(column: Any) -> Kind | None:
    """What its cells are; None for what does not fit into a table."""
    try:
        found = column.type.python_type
    except NotImplementedError:
        return None
    return found if found in _KINDS else None


def file_name(run: str, what: What, form: Form) -> str:
    """A name for the file that means nothing to a shell, a browser or a header."""
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', run).lstrip('.')}-{what}.{form}"


def chunks(written: Table, form: Form) -> Iterator[bytes]:
    """The table in some form, piece by piece; what is missing for it is said at once."""
    if form is Form.PARQUET:
        load_pyarrow()
        return _parquet_chunks(written)
    text = csv_text(written) if form is Form.CSV else json_text(written)
    return (chunk.encode() for chunk in text)


def _parquet_chunks(written: Table) -> Iterator[bytes]:
    """Parquet's foot says where everything lies: the file is written, then read."""
    with closing(cast(BinaryIO, tempfile.TemporaryFile())) as file:
        write_parquet(written, file)
        file.seek(0)
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
