"""The index of a dataset: an immutable, memory-mapped table of paths, sizes and labels.

    magic "DDLPIDX1" · u64 length of the JSON head · head · padding to 64 bytes ·
    u64 path_ends[n] · u64 sizes[n] · i64 times_ns[n] · i64 labels[n] · paths

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
    blob = [os.fsencode(name) for name in scan.paths]
    ends = np.cumsum([len(name) for name in blob], dtype="<u8")
    sizes = np.asarray(scan.sizes, dtype="<u8")
    times_ns = np.asarray(scan.times_ns, dtype="<i8")
    labels = np.asarray(scan.labels, dtype="<i8")
    columns = (ends, sizes, times_ns, labels)
    body = b"".join([*(column.tobytes() for column in columns), *blob])
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
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._open()
        except (OSError, ValueError, LookupError, TypeError, struct.error) as error:
            raise InvalidInput(
                f"{path} is not a dataset index of this version ({error}); register it again"
            ) from error

    def _open(self) -> None:
        if self._map[:8] != _MAGIC:
            raise ValueError("it begins otherwise")
        (length,) = struct.unpack_from("<Q", self._map, 8)
        head = json.loads(self._map[16 : 16 + length])
        self.version: str = head["version"]
        self.root = Path(head["root"])
        self.classes: tuple[str, ...] = tuple(head["classes"])
        self.samples: int = head["samples"]
        start = 16 + length
        start += -start % _ALIGN
        table = np.frombuffer(self._map, dtype="<i8", count=4 * self.samples, offset=start)
        self._ends, self._sizes, self._times_ns, self._labels = table.reshape(4, self.samples)
        self._paths_at = start + table.nbytes
        if self._paths_at + int(self._ends[-1]) != len(self._map):
            raise ValueError("it is cut short or has grown")

    def path(self, sample: int) -> Path:
        """Where a sample's encoded bytes lie."""
        start = int(self._ends[sample - 1]) if sample else 0
        name = self._map[self._paths_at + start : self._paths_at + int(self._ends[sample])]
        return self.root / os.fsdecode(name)

    def label(self, sample: int) -> int:
        """A sample's class number."""
        return int(self._labels[sample])

    def read(self, sample: int) -> bytes:
        """A sample's encoded bytes, if they are still those that were indexed."""
        with self.path(sample).open("rb") as file:
            status = os.fstat(file.fileno())
            if (
                status.st_size != self._sizes[sample]
                or status.st_mtime_ns != self._times_ns[sample]
            ):
                raise ValueError("it was changed after it was indexed; register the dataset again")
            return file.read()
