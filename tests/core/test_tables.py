"""Tables are read back as they were written, by the readers that people use."""

import csv
import io
import json
import math
import re
import struct
import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.errors import InvalidInput, Unavailable
from ddlp.core.tables import Cell, Column, Row, Table, csv_text, json_text, write_parquet

COLUMNS = [
    Column("count", int),
    Column("seconds", float),
    Column("name", str),
    Column("tail", bool),
]
ROWS: list[tuple[Cell, ...]] = [
    (1, 0.1, "plain", True),
    (-(2**62), 1e-300, 'ünï, "cödé"\r\n日本 🐍', False),
    (None, None, None, None),
    (0, -0.0, "'quoted'", True),
    (7, math.pi, "", False),
]
MANY = 100_000
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def table(rows: Sequence[Row] = ROWS, columns: Sequence[Column] = COLUMNS) -> Table:
    return Table(columns, iter(rows))


def read_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def as_parquet(written: Table) -> io.BytesIO:
    file = io.BytesIO()
    write_parquet(written, file)
    return io.BytesIO(file.getvalue())


def bits(number: float) -> bytes:
    return struct.pack("<d", number)


# CSV


def from_csv(cells: list[str]) -> tuple[Cell, ...]:
    """What a reader makes of a row that knows the columns."""
    count, seconds, name, tail = cells
    return (
        int(count) if count else None,
        float(seconds) if seconds else None,
        name or None,
        {"true": True, "false": False, "": None}[tail],
    )


def test_csv_is_read_back_with_its_values() -> None:
    header, *rows = read_csv("".join(csv_text(table())))
    assert header == ["count", "seconds", "name", "tail"]
    found = [from_csv(row) for row in rows]
    assert found == [tuple(None if cell == "" else cell for cell in row) for row in ROWS]
    assert str(found[3][1]) == "-0.0"


def test_csv_ends_lines_as_the_standard_says_and_tells_empty_from_unknown() -> None:
    text = "".join(csv_text(table([(None, 1.0, "", None), (1, 2.0, None, True)])))
    assert text == 'count,seconds,name,tail\r\n,1.0,"",\r\n1,2.0,,true\r\n'


def test_a_lone_unknown_cell_is_still_a_row() -> None:
    assert read_csv("".join(csv_text(Table([Column("a", int)], [(None,), (1,)])))) == [
        ["a"],
        [""],
        ["1"],
    ]


@settings(deadline=None)
@given(number=st.floats(allow_nan=False))
def test_floats_keep_their_bits(number: float) -> None:
    columns = [Column("x", float)]
    [_, [cell]] = read_csv("".join(csv_text(table([(number,)], columns))))
    assert bits(float(cell)) == bits(number)
    read = pyarrow.parquet.read_table(as_parquet(table([(number,)], columns)))
    assert bits(read["x"][0].as_py()) == bits(number)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "'=", "''@"])
def test_text_that_a_spreadsheet_would_run_is_quoted(start: str) -> None:
    text = f"{start}cmd|' /C calc'!A0"
    [_, [cell]] = read_csv("".join(csv_text(table([(text,)], [Column("x", str)]))))
    assert cell == f"'{text}"


def test_numbers_are_never_quoted() -> None:
    columns = [Column("x", float), Column("n", int)]
    assert "".join(csv_text(table([(-1.5, -3)], columns))).endswith("\r\n-1.5,-3\r\n")


@given(rows=st.lists(st.tuples(TEXT, TEXT), max_size=5))
def test_any_text_can_be_had_back(rows: list[tuple[str, str]]) -> None:
    columns = [Column("a", str), Column("b", str)]
    [_, *found] = read_csv("".join(csv_text(table(rows, columns))))
    plain = [tuple(re.sub(r"^'('*[=+\-@\t\r\n])", r"\1", cell) for cell in row) for row in found]
    assert plain == rows
    assert all(not cell.startswith(("=", "+", "-", "@")) for row in found for cell in row)
    assert [
        tuple(row.values()) for row in json.loads("".join(json_text(table(rows, columns))))
    ] == (rows)


# JSON


def test_json_is_read_back_with_its_values() -> None:
    found = json.loads("".join(json_text(table())))
    names = [column.name for column in COLUMNS]
    assert found == [dict(zip(names, row, strict=True)) for row in ROWS]
    assert [type(cell) for cell in found[0].values()] == [int, float, str, bool]


def test_a_table_without_rows_is_an_empty_list() -> None:
    assert json.loads("".join(json_text(table([])))) == []
    assert read_csv("".join(csv_text(table([])))) == [["count", "seconds", "name", "tail"]]
    assert pyarrow.parquet.read_table(as_parquet(table([]))).num_rows == 0


def test_json_has_no_word_for_what_is_no_number() -> None:
    rows = [(math.nan,), (math.inf,), (1.0,)]
    text = "".join(json_text(table(rows, [Column("x", float)])))
    assert json.loads(text) == [{"x": None}, {"x": None}, {"x": 1.0}]


# Parquet


def test_parquet_is_read_back_with_its_values_and_types() -> None:
    found = pyarrow.parquet.read_table(as_parquet(table()))
    assert [str(field.type) for field in found.schema] == ["int64", "double", "string", "bool"]
    assert [tuple(row.values()) for row in found.to_pylist()] == ROWS


def test_parquet_is_written_group_by_group() -> None:
    rows = ((number, number / 7, str(number), number % 2 == 0) for number in range(MANY))
    file = pyarrow.parquet.ParquetFile(as_parquet(Table(COLUMNS, rows)))
    assert file.metadata.num_rows == MANY
    assert file.num_row_groups == 2
    assert file.read()["seconds"][MANY - 1].as_py() == (MANY - 1) / 7


def test_without_pyarrow_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Unavailable, match=r"ddlp\[parquet\]"):
        write_parquet(table(), io.BytesIO())


# pandas


@pytest.fixture(scope="module")
def pandas() -> Any:
    return pytest.importorskip("pandas", reason="pandas is not installed")


def test_pandas_reads_all_three(pandas: Any) -> None:
    rows = [(1, 0.1, "plain", True), (2, 1 / 3, 'ünï, "cödé"', False), (3, -2.5e-9, "x", True)]
    comma = io.StringIO("".join(csv_text(table(rows))))
    frames = [
        pandas.read_csv(comma),
        pandas.read_json(io.StringIO("".join(json_text(table(rows)))), precise_float=True),
        pandas.read_parquet(as_parquet(table(rows))),
    ]
    for frame in frames:
        assert list(frame.itertuples(index=False, name=None)) == rows
        kinds = [kind.kind for kind in frame.dtypes]
        assert (kinds[0], kinds[1], kinds[3]) == ("i", "f", "b")


def test_pandas_sees_unknown_cells_as_missing(pandas: Any) -> None:
    rows = [(1, 0.5, "a", True), (None, None, None, None)]
    for frame in (
        pandas.read_csv(io.StringIO("".join(csv_text(table(rows))))),
        pandas.read_parquet(as_parquet(table(rows))),
    ):
        assert frame.isna().to_numpy().tolist() == [[False] * 4, [True] * 4]


# What is promised of every table


@pytest.mark.parametrize("write", [csv_text, json_text])
def test_long_tables_are_written_in_pieces(write: Any) -> None:
    def rows() -> Iterator[Row]:
        for number in range(MANY):
            yield number, number / 3, f"sample {number}", number % 2 == 0

    tracemalloc.start()
    longest = total = 0
    for chunk in write(Table(COLUMNS, rows())):
        longest, total = max(longest, len(chunk)), total + len(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total > 3_000_000
    assert longest < 200_000
    assert peak < 2_000_000


@pytest.mark.parametrize("write", [csv_text, json_text])
def test_long_tables_are_whole(write: Any) -> None:
    rows = [(number, number / 3, f"sample {number}", number % 2 == 0) for number in range(MANY)]
    text = "".join(write(table(rows)))
    if write is csv_text:
        found = [from_csv(row) for row in read_csv(text)[1:]]
    else:
        found = [tuple(row.values()) for row in json.loads(text)]
    assert found == rows


@pytest.mark.parametrize(
    "row",
    [
        (1.5, 1.0, "a", True),
        (True, 1.0, "a", True),
        (1, "1.0", "a", True),
        (1, 1.0, 5, True),
        (1, 1.0, "a", 1),
        (1, 1.0, "a"),
    ],
)
@pytest.mark.parametrize("write", [csv_text, json_text])
def test_a_cell_of_another_kind_is_an_error(write: Any, row: tuple[Cell, ...]) -> None:
    with pytest.raises(InvalidInput):
        list(write(table([row])))


def test_whole_numbers_are_taken_as_floats() -> None:
    assert "".join(csv_text(table([(2,)], [Column("x", float)]))) == "x\r\n2.0\r\n"
