"""Writes shards: samples as they come, then the foot; `ddlp.core.dataset.shards` is the layout."""

from typing import Any, BinaryIO

import numpy as np

from ddlp.core.dataset.layout import RECORD, ROW, SampleRow, padding
from ddlp.core.dataset.shards import (
    HEAD_BYTES,
    Foot,
    Origin,
    Part,
    checksum,
    start_of_shard,
    write_foot,
)
from ddlp.core.image import Kind


class ShardWriter:
    """A shard on its way into a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = HEAD_BYTES
        self._rows = bytearray()
        self._checksums: list[int] = []
        self._names = bytearray()
        self._skipped: list[tuple[int, str, str]] = []
        self._records = 0
        file.write(bytes(HEAD_BYTES))

    def add(self, name: bytes, row: SampleRow, data: bytes) -> None:
        """Store a sample; where it lies is filled in."""
        self._names += name
        place = row._replace(
            size=len(data), time_ns=0, place=self._at, file=0, origin_size=row.size
        )
        self._rows += RECORD.pack(len(self._names), *place)
        self._checksums.append(checksum(data))
        self._records += row.kind == Kind.RECORD and len(data) > 0
        gap = bytes(padding(len(data)))
        self._file.write(data)
        self._file.write(gap)
        self._at += len(data) + len(gap)

    def skip(self, sample: int, shown: str, why: str) -> None:
        """Note that the sample just added could not be read."""
        self._skipped.append((sample, shown, why))

    def finish(self, part: Part, origin: Origin, options: dict[str, Any]) -> Foot:
        """Write the foot, and the head that leads to it."""
        foot = Foot(
            part,
            origin,
            options,
            self._records,
            tuple(self._skipped),
            np.frombuffer(bytes(self._rows), ROW),
            np.array(self._checksums, dtype=np.uint64),
            bytes(self._names),
        )
        raw = write_foot(foot)
        self._file.write(raw)
        self._file.seek(0)
        self._file.write(start_of_shard(self._at, raw))
        return foot
