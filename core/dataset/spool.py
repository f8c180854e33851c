"""Rows and names on their way to an index: in temporary files, so that memory stays flat."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy.typing as npt

from ddlp.core.dataset.layout import RECORD, ROW, SampleRow

_BUFFER_BYTES = 1 << 20

Rows = npt.NDArray[Any]


class Spool:
    """A growing table of rows and their names, read back in the order they came."""

    def __init__(self, folder: Path, name: str) -> None:
        self.rows_path = folder / f"{name}.rows"
        self.names_path = folder / f"{name}.names"
        self.count = 0
        self.name_bytes = 0
        self._rows: IO[bytes] = self.rows_path.open("wb", buffering=_BUFFER_BYTES)
        self._names: IO[bytes] = self.names_path.open("wb", buffering=_BUFFER_BYTES)

    def append(self, name: bytes, row: SampleRow) -> None:
        """Add one row."""
        self._names.write(name)
        self.name_bytes += len(name)
        self._rows.write(RECORD.pack(self.name_bytes, *row))
        self.count += 1

    def extend(self, rows: Rows, names: bytes = b"") -> None:
        """Add rows of type ROW whose names lie one after the other, their ends counted from 0."""
        moved = rows.copy()
        moved["name_end"] += self.name_bytes
        self._rows.write(moved.tobytes())
        self._names.write(names)
        self.name_bytes += len(names)
        self.count += len(rows)

    def close(self) -> None:
        """Write out what is buffered; nothing can be added from now on."""
        self._rows.close()
        self._names.close()

    def chunks(self, size: int) -> Iterator[list[tuple[bytes, SampleRow]]]:
        """What was added, in lists of at most `size`."""
        start = 0
        with self.rows_path.open("rb") as rows, self.names_path.open("rb") as names:
            while data := rows.read(size * ROW.itemsize):
                chunk = []
                for end, *values in RECORD.iter_unpack(data):
                    chunk.append((names.read(end - start), SampleRow(*values)))
                    start = end
                yield chunk
