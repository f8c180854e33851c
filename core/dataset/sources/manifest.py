"""A manifest: a CSV, JSON lines or Parquet file with the path and the label of each sample."""

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from ddlp.core.dataset.check import reason_of
from ddlp.core.dataset.files import open_regular
from ddlp.core.dataset.labels import LabelBook
from ddlp.core.dataset.layout import SampleRow
from ddlp.core.dataset.sources.base import Classes, Listing, named
from ddlp.core.dataset.sources.loose import LooseSource
from ddlp.core.errors import InvalidInput, Unavailable
from ddlp.core.patience import system_call

_COLUMNS = ("path", "label")
_MAX_LINE = 1 << 20
_MAX_PATH = 1 << 15
_BATCH_ROWS = 1 << 14
_MOST_COLUMNS = 1000
_ONE_CLASS = "DDLP trains on one class per image, and reads no boxes, masks or keypoints."
_TOLD = {
    **dict.fromkeys(
        (
            *("box", "boxes", "bbox", "bboxes", "bounding_box", "bounding_boxes"),
            *("mask", "masks", "segmentation", "segmentations", "polygon", "polygons"),
            *("keypoint", "keypoints", "landmarks", "annotations", "objects"),
        ),
        _ONE_CLASS,
    ),
    **dict.fromkeys(
        ("split", "subset", "fold", "set"),
        "all rows are taken as one dataset. Write a manifest for each split.",
    ),
    **dict.fromkeys(
        ("labels", "classes", "tags"), "only the column label is read, one class per image."
    ),
}
"""Columns whose loss must not go unseen, and what to say of it."""

Entry = tuple[int, object, object]
"""Line or row, path, label; a ValueError in place of the path says what is wrong with the line."""


class ManifestSource(LooseSource):
    """The order is the manifest's; paths are relative to its folder, and may not leave it."""

    kind = "manifest"

    @property
    def root(self) -> Path:
        """The manifest's folder."""
        return self.uri.parent

    @property
    def expected(self) -> str:
        """A row that names an image."""
        return f"{self.uri} names no samples; expected the columns {' and '.join(_COLUMNS)}"

    def list_samples(self, listing: Listing) -> Classes:
        """Name the sample of every row."""
        self._fence.check(str(self.uri))
        book = LabelBook(as_classes=self.options.as_classes)
        columns: dict[str, None] = {}
        try:
            with system_call("read", self.uri):
                for line, path, label in READERS[self.uri.suffix.lower()](self.uri, columns):
                    try:
                        name = _name(path)
                        number = book.number(label, f"{self.uri}:{line}")
                        listing.add(name, SampleRow(0, 0, label=number))
                    except ValueError as error:
                        listing.reject(f"{self.uri}:{line}", str(error))
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{self.uri}: {reason_of(error)}") from error
        for note in _notes(columns):
            listing.note(note)
        return book.settle()

    def inspect(self, name: bytes, row: SampleRow) -> SampleRow:
        """Refuse a path that leads outside before it is opened."""
        self._fence.check(os.path.join(self.root, os.fsdecode(name)))
        return super().inspect(name, row)


def _notes(columns: Iterable[str]) -> Iterator[str]:
    """What is said of columns that are not read."""
    others = [name for name in columns if name.strip().lower() not in _COLUMNS]
    for name in others:
        if (told := _TOLD.get(name.strip().lower())) is not None:
            yield f"The column {name} is ignored: {told}"
    rest = [name for name in others if name.strip().lower() not in _TOLD]
    if rest:
        yield f"Columns that are ignored: {named(rest)}."


def _name(path: object) -> bytes:
    if isinstance(path, ValueError):
        raise path
    if not isinstance(path, str) or not path:
        raise ValueError("it has no path" if path in (None, "") else f"{path!r} is not a path")
    name = os.fsencode(path)
    if b"\0" in name or len(name) > _MAX_PATH:
        raise ValueError(f"{path[:40]!r} cannot be a path")
    return name


def _read_csv(path: Path, seen: dict[str, None]) -> Iterator[Entry]:
    with _open_text(path) as file:
        reader = csv.reader(iter(lambda: file.readline(_MAX_LINE), ""))
        try:
            head = next(reader, [])
            seen.update(dict.fromkeys(head))
            places = _columns(path, [name.strip().lower() for name in head])
        except csv.Error as error:
            raise InvalidInput(f"{path} is not a CSV file: {error}") from error
        while True:
            try:
                row = next(reader, None)
            except csv.Error as error:
                yield reader.line_num, ValueError(f"it is not CSV: {error}"), None
                continue
            if row is None:
                return
            if row:
                values = [row[place] if place < len(row) else None for place in places]
                yield reader.line_num, values[0], values[1]


def _read_json_lines(path: Path, seen: dict[str, None]) -> Iterator[Entry]:
    with _open_text(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE), ""), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                yield number, ValueError("it is not JSON"), None
                continue
            if isinstance(row, dict):
                if len(seen) < _MOST_COLUMNS:
                    seen.update(dict.fromkeys(row))
                yield number, row.get("path"), row.get("label")
            else:
                yield number, ValueError("it is not a JSON object"), None


def _read_parquet(path: Path, seen: dict[str, None]) -> Iterator[Entry]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Unavailable(
            f"{path} needs the package pyarrow; install it: pip install 'ddlp[parquet]'"
        ) from error
    number = 0
    try:
        with open_regular(str(path)) as raw, pyarrow.parquet.ParquetFile(raw) as file:
            seen.update(dict.fromkeys(file.schema_arrow.names))
            places = _columns(path, [name.lower() for name in file.schema_arrow.names])
            columns = [file.schema_arrow.names[place] for place in places]
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
                paths, labels = (_values(batch, column) for column in columns)
                for name, label in zip(paths, labels, strict=True):
                    number += 1
                    yield number, name, label
    except (pyarrow.ArrowException, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as Parquet: {error}") from error


def _values(batch: Any, column: str) -> list[object]:
    values: list[object] = batch.column(column).to_pylist()
    return values


def _open_text(path: Path) -> TextIO:
    """A text file; bytes that are not UTF-8 are kept: they may be part of a path."""
    open_regular(str(path)).close()
    return path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")


def _columns(path: Path, names: Sequence[str]) -> list[int]:
    missing = [column for column in _COLUMNS if column not in names]
    if missing:
        found = ", ".join(names)[:200] or "none"
        raise InvalidInput(
            f"{path} has no column {' and '.join(missing)} (it has: {found}); the columns must be "
            "named path and label, those of a CSV file in its first line"
        )
    return [names.index(column) for column in _COLUMNS]


READERS: dict[str, Callable[[Path, dict[str, None]], Iterator[Entry]]] = {
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
}
