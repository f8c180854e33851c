"""The index of a dataset: an immutable, memory-mapped table of paths, sizes and labels.

    magic "DDLPIDX1" · u64 length of the JSON head · head · padding to 64 bytes ·
    u64 path_ends[n] · u64 sizes[n] · i64 labels[n] · UTF-8 paths

All numbers are little-endian. The head names the root, the classes and the manifest hash; a worker
maps the file and touches only the samples it needs.
"""

import hashlib
import json
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ddlp.core.dataset.folder import FolderScan
from ddlp.core.errors import InvalidInput

_MAGIC = b"DDLPIDX1"
_ALIGN = 64


@dataclass(frozen=True)
class IndexSummary:
    """What a dataset's row in the database says of its index."""

    version: str
    samples: int
    classes: tuple[str, ...]
    total_bytes: int


def write_index(scan: FolderScan, path: Path) -> IndexSummary:
    """Write the index of a scan; it appears whole or not at all."""
    blob = [name.encode() for name in scan.paths]
    ends = np.cumsum([len(name) for name in blob], dtype="<u8")
    sizes = np.asarray(scan.sizes, dtype="<u8")
    labels = np.asarray(scan.labels, dtype="<i8")
    body = ends.tobytes() + sizes.tobytes() + labels.tobytes() + b"".join(blob)
    version = hashlib.sha256(json.dumps(scan.classes).encode() + body).hexdigest()
    head = json.dumps(
        {
            "version": version,
            "root": str(scan.root),
            "samples": len(blob),
            "classes": scan.classes,
        }
    ).encode()
    start = _MAGIC + struct.pack("<Q", len(head)) + head
    start += b"\0" * (-len(start) % _ALIGN)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(start + body)
    temporary.rename(path)
    return IndexSummary(version, len(blob), scan.classes, int(sizes.sum()))


class DatasetIndex:
    """A mapped index: sample numbers in, paths and labels out."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._map[:8] != _MAGIC:
            raise InvalidInput(f"{path} is not a dataset index of this version; register it again")
        (length,) = struct.unpack_from("<Q", self._map, 8)
        head = json.loads(self._map[16 : 16 + length])
        self.version: str = head["version"]
        self.root = Path(head["root"])
        self.classes: tuple[str, ...] = tuple(head["classes"])
        self.samples: int = head["samples"]
        start = 16 + length
        start += -start % _ALIGN
        table = np.frombuffer(self._map, dtype="<u8", count=2 * self.samples, offset=start)
        self._ends, self._sizes = table[: self.samples], table[self.samples :]
        start += table.nbytes
        self._labels = np.frombuffer(self._map, dtype="<i8", count=self.samples, offset=start)
        self._paths_at = start + self._labels.nbytes

    def path(self, sample: int) -> Path:
        """Where a sample's encoded bytes lie."""
        start = int(self._ends[sample - 1]) if sample else 0
        name = self._map[self._paths_at + start : self._paths_at + int(self._ends[sample])]
        return self.root / name.decode()

    def label(self, sample: int) -> int:
        """A sample's class number."""
        return int(self._labels[sample])

    def size_bytes(self, sample: int) -> int:
        """The size of a sample's encoded bytes when it was indexed."""
        return int(self._sizes[sample])

    def read(self, sample: int) -> bytes:
        """A sample's encoded bytes."""
        return self.path(sample).read_bytes()
