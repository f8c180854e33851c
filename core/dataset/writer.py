"""Writes an index: collects rows in temporary files, then makes one immutable file of them."""

import contextlib
import hashlib
import json
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ddlp.core.dataset.layout import (
    FILE,
    IDENTITY,
    MAGIC,
    ROW,
    SECTIONS,
    padding,
)
from ddlp.core.dataset.spool import Spool

_PIECE = 1 << 18
_COPY_BYTES = 1 << 22
_MOST_NOTES = 100


@dataclass(frozen=True)
class IndexSummary:
    """What a dataset's row in the database says of its index."""

    version: str
    kind: str
    samples: int
    classes: tuple[str, ...]
    total_bytes: int
    rejected: int


@dataclass(frozen=True)
class PixelPlace:
    """Where the pixels of an array dataset lie: N × height × width × 3 bytes from `offset` on."""

    height: int
    width: int
    offset: int = 0
    beside: Path | None = None
    """A file made by the scan, to be kept beside the index; None: in the dataset's own file."""


@dataclass(frozen=True)
class IndexHead:
    """What an index says of the dataset as a whole."""

    kind: str
    root: Path
    classes: tuple[str, ...]
    renumbered: npt.NDArray[np.uint32] | None = None
    """The class number that each label collected stands for; None where they are final."""
    pixels: PixelPlace | None = None
    version: str | None = None
    """Of a dataset that is another one in another form; None: it follows from what is collected."""
    packing: dict[str, Any] | None = None
    """How a packed dataset was packed."""


def pixels_beside(path: Path) -> Path:
    """Where the pixels lie that were copied for the index at a path."""
    return path.with_name(f"{path.name}.pixels")


def delete_index(path: Path) -> None:
    """Remove an index and what was made for it; it need not be there."""
    path.unlink(missing_ok=True)
    pixels_beside(path).unlink(missing_ok=True)


def move_index(path: Path, to: Path) -> None:
    """Put an index in the place of one of the same version; whoever has that open keeps it."""
    if pixels_beside(path).exists():
        pixels_beside(path).replace(pixels_beside(to))
    path.replace(to)


class IndexWriter:
    """Collects samples, files and rejections below a folder of its own, and finishes the index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.samples = Spool(folder, "samples")
        self.rejected = 0
        self.first_rejected: tuple[str, str] | None = None
        self.notes: list[str] = []
        """What the scan left out or took in an unusual way, a sentence each."""
        self._files: list[tuple[int, int, int]] = []
        self._file_names = bytearray()
        self._rejected: IO[bytes] = (folder / "rejected").open("wb")
        self._rejected_ends: IO[bytes] = (folder / "rejected_ends").open("wb")
        self._rejected_end = 0

    def add_file(self, name: bytes, size: int, time_ns: int) -> int:
        """Name a file that holds many samples; its number goes into their rows."""
        self._file_names += name
        self._files.append((len(self._file_names), size, time_ns))
        return len(self._files) - 1

    def reject(self, name: str, reason: str) -> None:
        """Remember a file that cannot be used."""
        record = f"{name}\0{reason}".encode(errors="backslashreplace")
        self._rejected.write(record)
        self._rejected_end += len(record)
        self._rejected_ends.write(struct.pack("<Q", self._rejected_end))
        self.rejected += 1
        self.first_rejected = self.first_rejected or (name, reason)

    def note(self, sentence: str) -> None:
        """Remember what whoever registers the dataset must be told."""
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(sentence.encode(errors="backslashreplace").decode())

    def close(self) -> None:
        """Write out what is buffered; nothing can be added from now on."""
        for spool in (self.samples, self._rejected, self._rejected_ends):
            spool.close()

    def finish(self, head: IndexHead, into: Path) -> IndexSummary:
        """Make the index; it appears whole or not at all."""
        self.close()
        total_bytes = self._settle_rows(head)
        sections = self._sections()
        fields = {
            "kind": head.kind,
            "root": str(head.root),
            "samples": self.samples.count,
            "classes": head.classes,
            "total_bytes": total_bytes,
            "rejected": self.rejected,
            "pixels": _describe(head.pixels),
            "packing": head.packing,
            "notes": self.notes,
        }
        version = _assemble(self.folder / "index", fields, sections, head.version)
        if head.pixels is not None and head.pixels.beside is not None:
            head.pixels.beside.rename(pixels_beside(into))
        else:
            pixels_beside(into).unlink(missing_ok=True)
        (self.folder / "index").rename(into)
        return IndexSummary(
            version, head.kind, self.samples.count, head.classes, total_bytes, self.rejected
        )

    def _settle_rows(self, head: IndexHead) -> int:
        """Give labels their final numbers, sort the samples by class, and add up their sizes."""
        rows = np.memmap(self.samples.rows_path, ROW, mode="r+", shape=(self.samples.count,))
        total_bytes, counts = 0, np.zeros(len(head.classes), dtype=np.int64)
        for piece in _pieces(rows):
            if head.renumbered is not None:
                piece["label"] = head.renumbered[piece["label"]]
            counts += np.bincount(piece["label"], minlength=len(counts))
            total_bytes += int(piece["size"].sum())
        starts = np.concatenate([[0], np.cumsum(counts)]).astype("<i8")
        starts.tofile(self.folder / "class_starts")
        _sort_by_class(rows, starts[:-1].copy(), self.folder / "members")
        return total_bytes

    def _sections(self) -> dict[str, Path]:
        np.array(self._files, dtype=FILE).tofile(self.folder / "files")
        (self.folder / "file_names").write_bytes(self._file_names)
        paths = {name: self.folder / name for name in SECTIONS}
        return paths | {"rows": self.samples.rows_path, "names": self.samples.names_path}


@contextlib.contextmanager
def index_writer(into: Path) -> Iterator[IndexWriter]:
    """A writer for the index at a path; nothing but that index is left behind."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{into.name}.", dir=into.parent) as folder:
        writer = IndexWriter(Path(folder))
        try:
            yield writer
        finally:
            writer.close()


def _pieces(rows: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    for start in range(0, len(rows), _PIECE):
        yield rows[start : start + _PIECE]


def _sort_by_class(rows: npt.NDArray[Any], place: npt.NDArray[np.int64], path: Path) -> None:
    """Write the samples' numbers by class; `place` says where the next of each class goes."""
    members = np.memmap(path, "<i8", mode="w+", shape=(len(rows),))
    first = 0
    for piece in _pieces(rows):
        labels = piece["label"].astype(np.int64)
        order = np.argsort(labels, kind="stable")
        ordered = labels[order]
        rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
        members[place[ordered] + rank] = first + order
        place += np.bincount(labels, minlength=len(place))
        first += len(piece)
    members.flush()


def _describe(pixels: PixelPlace | None) -> dict[str, int | bool] | None:
    if pixels is None:
        return None
    described: dict[str, int | bool] = {
        "height": pixels.height,
        "width": pixels.width,
        "offset": pixels.offset,
        "beside": pixels.beside is not None,
    }
    if pixels.beside is not None:
        status = pixels.beside.stat()
        described |= {"size": status.st_size, "time_ns": status.st_mtime_ns}
    return described


def _assemble(
    path: Path, fields: dict[str, Any], sections: dict[str, Path], version: str | None
) -> str:
    """Put head and sections into one file; the version is known only when all was copied."""
    places, end = {}, 0
    for name in SECTIONS:
        start = end + padding(end)
        end = start + sections[name].stat().st_size
        places[name] = [start, end - start]
    fields |= {"version": "0" * 64, "sections": places}
    identity = hashlib.sha256(_identity(fields))
    with path.open("wb") as out:
        _write_head(out, fields)
        body = out.tell()
        for name, (start, _) in places.items():
            out.write(b"\0" * (body + start - out.tell()))
            seen = identity.update if name in IDENTITY else _ignore
            _copy(sections[name], out, seen)
        version = version or identity.hexdigest()
        out.seek(0)
        _write_head(out, fields | {"version": version})
    return version


def _identity(fields: dict[str, Any]) -> bytes:
    """What of the head makes up the version: not the root, not where pixels were copied to."""
    pixels = fields["pixels"] or {}
    lengths = [fields["sections"][name][1] for name in IDENTITY]
    shape = [pixels.get("height"), pixels.get("width")]
    return json.dumps([fields["kind"], fields["classes"], shape, lengths]).encode()


def _write_head(out: IO[bytes], fields: dict[str, Any]) -> None:
    head = json.dumps(fields).encode()
    start = MAGIC + struct.pack("<Q", len(head)) + head
    out.write(start + b"\0" * padding(len(start)))


def _copy(source: Path, out: IO[bytes], seen: Callable[[bytes], object]) -> None:
    with source.open("rb") as file:
        while data := file.read(_COPY_BYTES):
            seen(data)
            out.write(data)


def _ignore(_: bytes) -> None:
    pass
