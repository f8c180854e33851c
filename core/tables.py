"""Writes tables as CSV, JSON and Parquet, piece by piece, so that a table of any length fits.

What is not known is None: an empty cell in CSV, null in the others. Floats keep all their bits, but
JSON has no word for an infinity or what is no number: they become null there.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, BinaryIO

from ddlp.core.errors import InvalidInput, Unavailable

Cell = int | float | str | bool | None
Row = Sequence[Cell]
Kind = type[int] | type[float] | type[str] | type[bool]

_CHUNK_ROWS = 1000
_GROUP_ROWS = 50_000
_NEEDS_QUOTES = re.compile(r'[",\r\n]')
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
"""How text begins that a spreadsheet would run; with quotes before it, so that one can be removed
from every such text to get it back."""


class Form(StrEnum):
    """How a table is written; the ending of its file too."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"

    @property
    def media_type(self) -> str:
        """What a response says it holds."""
        return {
            Form.CSV: "text/csv; charset=utf-8",
            Form.JSON: "application/json",
            Form.PARQUET: "application/vnd.apache.parquet",
        }[self]


@dataclass(frozen=True)
class Column:
    """A column: its name, and what its cells are where they are known."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Table:
    """Rows as they come; they are read once."""

    columns: Sequence[Column]
    rows: Iterable[Row]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    def checked(self) -> Iterator[list[Cell]]:
        """Its rows; a cell that is not of its column's kind is an error, not a surprise."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InvalidInput(
                    f"a row has {len(row)} cells, not one for each of {', '.join(self.names)}"
                )
            yield [_checked(cell, column) for cell, column in zip(row, self.columns, strict=True)]


def _checked(cell: Cell, column: Column) -> Cell:
    if cell is None or type(cell) is column.kind:
        return cell
    if column.kind is float and type(cell) is int:
        return float(cell)
    if column.kind is str and isinstance(cell, str):
        return str(cell)
    raise InvalidInput(f"{cell!r} is no {column.kind.__name__}, as column {column.name} needs")


def csv_text(table: Table) -> Iterator[str]:
    """The table as RFC 4180 has it, with a header, in pieces of many lines.

    Text that a spreadsheet would take for a formula gets a single quote before it.
    """
    yield _csv_line(table.names)
    for rows in _groups(table.checked(), _CHUNK_ROWS):
        yield "".join(map(_csv_line, rows))


def _csv_line(row: Row) -> str:
    # A line with nothing on it would be no row: a lone empty cell is quoted.
    return (",".join(map(_csv_cell, row)) or '""') + "\r\n"


def _csv_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if not isinstance(cell, str):
        return repr(cell)
    text = f"'{cell}" if _FORMULA.match(cell) else cell
    if text and not _NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def json_text(table: Table) -> Iterator[str]:
    """The table as a list of objects, one a line, in pieces of many lines."""
    names, before = table.names, "["
    for rows in _groups(table.checked(), _CHUNK_ROWS):
        lines = (
            _json_line({name: _in_json(cell) for name, cell in zip(names, row, strict=True)})
            for row in rows
        )
        yield before + "\n" + ",\n".join(lines)
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def _json_line(row: dict[str, Cell]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False)


def _in_json(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def write_parquet(table: Table, file: BinaryIO) -> None:
    """Write the table into an open file, one group of rows after the other."""
    pyarrow, parquet = load_pyarrow()
    kinds: dict[Kind, Callable[[], Any]] = {
        int: pyarrow.int64,
        float: pyarrow.float64,
        str: pyarrow.string,
        bool: pyarrow.bool_,
    }
    schema = pyarrow.schema([(column.name, kinds[column.kind]()) for column in table.columns])
    with parquet.ParquetWriter(file, schema) as writer:
        for rows in _groups(table.checked(), _GROUP_ROWS):
            columns = [
                pyarrow.array(cells, of.type)
                for cells, of in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))


def load_pyarrow() -> tuple[Any, Any]:
    """The package pyarrow and its part for Parquet, or a word about how to get them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Unavailable(
            "Parquet needs the package pyarrow; install it: pip install 'ddlp[parquet]'"
        ) from error
    return pyarrow, pyarrow.parquet


def _groups(rows: Iterator[list[Cell]], most: int) -> Iterator[list[list[Cell]]]:
    while group := list(islice(rows, most)):
        yield group
