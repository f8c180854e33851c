"""The shard file of a packed dataset: samples, and a foot that says what is known of them.

    magic "DDLPREC1" · u64 where the foot begins · u64 its bytes · u64 its xxh3-64 · zeros to 64
    samples, each at a multiple of 64
    foot: u64 length of the JSON · JSON · zeros to a multiple of 64 · rows · checksums · names

All numbers are little-endian. Rows are those of an index (`layout.ROW`), with `place` in this file
and the ends of names counted from 0; checksums are the xxh3-64 of the samples as they are stored.
"""

import json
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import xxhash

from ddlp.core.dataset.files import open_regular, read_at
from ddlp.core.dataset.layout import ROW, padding
from ddlp.core.dataset.spool import Rows
from ddlp.core.image import Kind

MAGIC = b"DDLPREC1"
HEAD_BYTES = 64
_HEAD = struct.Struct("<8sQQQ")
_LENGTH = struct.Struct("<Q")
_FORMAT = 1
_MOST_FOOT_BYTES = 1 << 30
_MALFORMED = (
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    struct.error,
)
_NAME = re.compile(r"pack-(\d{5,})-of-(\d{5,})\.ddlp", re.ASCII)

Checksums = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Origin:
    """The dataset that was packed."""

    version: str
    kind: str
    samples: int
    classes: tuple[str, ...]
    total_bytes: int


@dataclass(frozen=True)
class Part:
    """Which part of a packed dataset a shard is."""

    number: int
    of: int
    first: int
    """Its first sample."""
    samples: int


@dataclass(frozen=True)
class Foot:
    """What a shard says of itself."""

    part: Part
    origin: Origin
    options: dict[str, Any]
    records: int
    """How many of its samples are records."""
    skipped: tuple[tuple[int, str, str], ...]
    """Samples that could not be read: number, name, why."""
    rows: Rows
    checksums: Checksums
    names: bytes

    def same_as(self, other: "Foot") -> bool:
        """Whether both say the same, down to the bytes of each sample."""
        return write_foot(self) == write_foot(other)

    def name(self, place: int) -> bytes:
        """The name of the sample at a place of this shard."""
        start = int(self.rows["name_end"][place - 1]) if place else 0
        return self.names[start : int(self.rows["name_end"][place])]


def shard_name(number: int, of: int) -> str:
    """What the file of a shard is called."""
    return f"pack-{number:05d}-of-{of:05d}.ddlp"


def parse_shard_name(name: str) -> tuple[int, int] | None:
    """The number of a shard and how many there are; None where a file is called otherwise."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    number, of = int(found[1]), int(found[2])
    return (number, of) if number < of and name == shard_name(number, of) else None


def checksum(data: bytes) -> int:
    """What is noted of a sample, to find out whether it is still the same."""
    return xxhash.xxh3_64_intdigest(data)


def start_of_shard(at: int, foot: bytes) -> bytes:
    """The first bytes of a shard whose foot begins at a place."""
    return _HEAD.pack(MAGIC, at, len(foot), checksum(foot)).ljust(HEAD_BYTES, b"\0")


def write_foot(foot: Foot) -> bytes:
    """A foot as it is stored."""
    about = {
        "format": _FORMAT,
        "number": foot.part.number,
        "of": foot.part.of,
        "first": foot.part.first,
        "samples": foot.part.samples,
        "dataset": {
            "version": foot.origin.version,
            "kind": foot.origin.kind,
            "samples": foot.origin.samples,
            "classes": foot.origin.classes,
            "total_bytes": foot.origin.total_bytes,
        },
        "options": foot.options,
        "packed": foot.records,
        "skipped": foot.skipped,
    }
    said = json.dumps(about).encode()
    start = _LENGTH.pack(len(said)) + said
    table = foot.rows.tobytes() + foot.checksums.astype("<u8").tobytes()
    return start + b"\0" * padding(len(start)) + table + foot.names


def read_foot(file: BinaryIO) -> Foot:
    """The foot of an open shard; a ValueError says why the file is none."""
    size = os.fstat(file.fileno()).st_size
    if size < HEAD_BYTES:
        raise ValueError("it is too short for a shard")
    magic, at, length, expected = _HEAD.unpack_from(read_at(file, 0, HEAD_BYTES))
    if magic != MAGIC:
        raise ValueError("it begins otherwise than a shard does")
    if at % HEAD_BYTES or at < HEAD_BYTES or length > _MOST_FOOT_BYTES or at + length != size:
        raise ValueError("it is cut short, or its head is damaged")
    raw = read_at(file, at, length)
    if checksum(raw) != expected:
        raise ValueError("its foot is damaged")
    try:
        foot = _parse(raw)
    except _MALFORMED as error:
        raise ValueError(f"its foot is of another version ({error})") from error
    _check(foot, at)
    return foot


def open_shard(path: Path) -> tuple[Foot, os.stat_result]:
    """A shard's foot, and the state of the file that it was read from."""
    with open_regular(str(path)) as file:
        return read_foot(file), os.fstat(file.fileno())


def _parse(raw: bytes) -> Foot:
    (length,) = _LENGTH.unpack_from(raw)
    about = json.loads(raw[_LENGTH.size : _LENGTH.size + length])
    if about["format"] != _FORMAT:
        raise ValueError(f"it is a shard of format {about['format']}, known is {_FORMAT}")
    said, count = about["dataset"], int(about["samples"])
    rows_at = _LENGTH.size + length + padding(_LENGTH.size + length)
    sums_at = rows_at + count * ROW.itemsize
    names_at = sums_at + count * 8
    if count < 1 or names_at > len(raw):
        raise ValueError("its foot is too short for its samples")
    return Foot(
        Part(int(about["number"]), int(about["of"]), int(about["first"]), count),
        Origin(
            str(said["version"]),
            str(said["kind"]),
            int(said["samples"]),
            tuple(str(name) for name in said["classes"]),
            int(said["total_bytes"]),
        ),
        dict(about["options"]),
        int(about["packed"]),
        tuple((int(sample), str(name), str(why)) for sample, name, why in about["skipped"]),
        np.frombuffer(raw, ROW, count, rows_at),
        np.frombuffer(raw, "<u8", count, sums_at),
        raw[names_at:],
    )


def _check(foot: Foot, end: int) -> None:
    """Refuse rows that lead outside what they count."""
    rows, ends = foot.rows, foot.rows["name_end"]
    inside = (rows["place"] <= end) & (rows["size"] <= end - np.minimum(rows["place"], end))
    known = (rows["kind"] <= max(Kind)) & (rows["kind"] != Kind.PIXELS)
    sound = inside & known & (rows["label"] < len(foot.origin.classes))
    sound &= (rows["width"] > 0) & (rows["height"] > 0) & (rows["place"] >= HEAD_BYTES)
    sound &= (rows["orientation"] >= 1) & (rows["orientation"] <= 8)
    if not sound.all() or (ends[1:] < ends[:-1]).any() or int(ends[-1]) != len(foot.names):
        raise ValueError("its rows are damaged")
