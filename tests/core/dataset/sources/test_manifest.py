"""A manifest names paths and labels in CSV, JSON lines or Parquet; its order is the samples'."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from ddlp.core.dataset import ScanOptions, scan
from ddlp.core.errors import InvalidInput, Unavailable
from tests.core.dataset.making import index_of, labels, names, picture, put, rejected

Row = tuple[str, object]


def write_csv(path: Path, rows: list[Row]) -> Path:
    lines = ["id,path,label", *(f"{n},{name},{label}" for n, (name, label) in enumerate(rows))]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_json_lines(path: Path, rows: list[Row]) -> Path:
    lines = [json.dumps({"label": label, "path": name, "more": [1]}) for name, label in rows]
    path.write_text("\n".join(lines))
    return path


def write_parquet(path: Path, rows: list[Row]) -> Path:
    table = {"more": [1.5] * len(rows), "label": [r[1] for r in rows], "path": [r[0] for r in rows]}
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    return path


WRITERS = pytest.mark.parametrize(
    ("ending", "write"),
    [
        (".csv", write_csv),
        (".CSV", write_csv),
        (".jsonl", write_json_lines),
        (".ndjson", write_json_lines),
        (".parquet", write_parquet),
    ],
)
Write = Callable[[Path, list[Row]], Path]


@WRITERS
def test_samples_keep_the_order_and_labels_of_the_manifest(
    tmp_path: Path, ending: str, write: Write
) -> None:
    put(tmp_path, "z/1.jpg", "a/2.jpg", "a/ü 3.png")
    rows: list[Row] = [("z/1.jpg", "dog"), ("a/ü 3.png", "cat"), ("a/2.jpg", "dog")]
    index = index_of(write(tmp_path / f"list{ending}", rows), allowed=())
    assert (index.kind, index.root, index.classes) == ("manifest", tmp_path, ("cat", "dog"))
    assert names(index) == [name for name, _ in rows]
    assert labels(index) == [1, 0, 1]
    assert index.read(1) == picture()
    assert index.members(1).tolist() == [0, 2]


@WRITERS
def test_labels_that_are_numbers_are_class_numbers(
    tmp_path: Path, ending: str, write: Write
) -> None:
    put(tmp_path, "1.jpg", "2.jpg")
    index = index_of(write(tmp_path / f"list{ending}", [("1.jpg", 3), ("2.jpg", 1)]))
    assert labels(index) == [3, 1]
    assert index.classes == ("0", "1", "2", "3")


@WRITERS
@pytest.mark.parametrize("way", ["../secret/1.jpg", "{}/secret/1.jpg", "link.jpg", "linked/1.jpg"])
def test_a_path_that_leads_out_of_what_is_allowed_is_named(
    tmp_path: Path, ending: str, write: Write, way: str
) -> None:
    put(tmp_path, "data/1.jpg", "secret/1.jpg")
    (tmp_path / "data" / "link.jpg").symlink_to(tmp_path / "secret" / "1.jpg")
    (tmp_path / "data" / "linked").symlink_to(tmp_path / "secret")
    rows: list[Row] = [("1.jpg", 0), (way.format(tmp_path), 0)]
    manifest = write(tmp_path / "data" / f"list{ending}", rows)
    with pytest.raises(InvalidInput, match=r"leads to .*secret.*, outside the allowed folders"):
        index_of(manifest, allowed=())
    index = index_of(manifest, allowed=(tmp_path / "secret",))
    assert (index.samples, index_of(manifest).samples) == (2, 2)
    assert index.read(1) == picture()


def test_a_manifest_that_is_a_link_out_of_what_is_allowed_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "data/1.jpg")
    (tmp_path / "data" / "list.csv").symlink_to(write_csv(tmp_path / "l.csv", [("1.jpg", 0)]))
    with pytest.raises(InvalidInput, match="outside the allowed folders"):
        index_of(tmp_path / "data" / "list.csv", allowed=())


def test_rows_that_cannot_be_used_are_listed_and_stop_nothing(tmp_path: Path) -> None:
    put(tmp_path, "1.jpg", "2.jpg")
    (tmp_path / "list.csv").write_text(
        "\ufeffPath , LABEL\n1.jpg,cat\n,cat\n1.jpg\n1.jpg,\ngone.jpg,cat\n\n1.jpg,-1\n"
        f'{"x" * 200_000},cat\n"2.jpg",dog\n'
    )
    index = index_of(tmp_path / "list.csv")
    assert names(index) == ["1.jpg", "2.jpg"]
    reasons = rejected(index)
    assert reasons["list.csv:3"] == "it has no path"
    assert reasons["list.csv:4"] == reasons["list.csv:5"] == "it has no label"
    assert reasons["list.csv:8"] == "its label -1 is below 0"
    assert "field larger" in reasons["list.csv:9"]
    assert "No such file" in reasons["gone.jpg"]
    assert index.rejected == 6


def test_lines_that_are_not_json_are_listed_and_stop_nothing(tmp_path: Path) -> None:
    put(tmp_path, "1.jpg")
    lines = [
        '{"path": "1.jpg", "label": 0}',
        "{",
        "[1]",
        '{"path": 5, "label": 0}',
        '{"path": "1.jpg", "label": true}',
        '{"path": "1.jpg", "label": NaN}',
        '{"path": "a\\u0000b", "label": 0}',
        '{"path": "1.jpg", "label": "\\ud800"}',
        "[" * 100_000,
        '{"path": "1.jpg", "label": 2.0}',
    ]
    (tmp_path / "list.jsonl").write_text("\n".join(lines))
    index = index_of(tmp_path / "list.jsonl")
    assert labels(index) == [0, 2]
    reasons = rejected(index)
    assert sorted(reasons) == [f"list.jsonl:{line}" for line in range(2, 10)]
    assert reasons["list.jsonl:2"] == "it is not JSON"
    assert reasons["list.jsonl:5"] == "True is not a label"


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "path\n1.jpg\n", "1.jpg,cat\n", "path;label\n1.jpg;cat\n"]
)
def test_a_csv_file_without_its_columns_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(InvalidInput, match=r"list\.csv has no column .*named path and label"):
        index_of(tmp_path / "list.csv")


def test_a_parquet_file_without_its_columns_is_named(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"path": ["1.jpg"]}), tmp_path / "l.parquet")
    with pytest.raises(InvalidInput, match=r"l\.parquet has no column label \(it has: path\)"):
        index_of(tmp_path / "l.parquet")


def test_a_file_that_is_not_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "l.parquet").write_bytes(b"PAR1 but nothing else")
    with pytest.raises(InvalidInput, match=r"l\.parquet cannot be read as Parquet"):
        index_of(tmp_path / "l.parquet")


def test_without_pyarrow_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "l.parquet", [("1.jpg", 0)])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Unavailable, match=r"pip install 'ddlp\[parquet\]'"):
        index_of(tmp_path / "l.parquet")


def test_an_empty_manifest_says_what_was_expected(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("path,label\n")
    with pytest.raises(InvalidInput, match="names no samples; expected the columns path and label"):
        index_of(tmp_path / "list.csv")


def test_a_pipe_with_the_name_of_a_manifest_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "list.csv")
    with pytest.raises(InvalidInput, match="not a regular file"):
        index_of(tmp_path / "list.csv")


def test_a_path_that_is_not_utf8_is_read(tmp_path: Path) -> None:
    put(tmp_path, os.fsdecode(b"\xff.jpg"))
    (tmp_path / "list.csv").write_bytes(b"path,label\n\xff.jpg,cat\n")
    assert index_of(tmp_path / "list.csv").read(0) == picture()


def test_the_version_says_nothing_of_where_the_manifest_lies(tmp_path: Path) -> None:
    versions = []
    for place in ("here", "there"):
        put(tmp_path / place, "1.jpg")
        os.utime(tmp_path / place / "1.jpg", ns=(5, 5))
        manifest = write_csv(tmp_path / place / "list.csv", [("1.jpg", 0)])
        versions.append(scan(manifest, tmp_path / "i.idx", ScanOptions()).version)
    assert versions[0] == versions[1]
