"""Shards: what was written comes back from their feet, and nothing damaged does."""

import json
import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddlp.core.dataset.layout import SampleRow
from ddlp.core.dataset.shards import (
    HEAD_BYTES,
    Foot,
    Origin,
    Part,
    checksum,
    open_shard,
    parse_shard_name,
    shard_name,
    start_of_shard,
    write_foot,
)
from ddlp.core.records.shard import ShardWriter

ORIGIN = Origin("ab" * 32, "folder", 5, ("cat", "dog ü"), 12345)
PART = Part(1, 2, 2, 3)
DATA = (b"a record" * 20, b"", b"png" * 33)
NAMES = (b"cat/1.jpg", b"dog/\xff.jpg", b"")


def write(path: Path) -> Foot:
    with path.open("wb") as file:
        shard = ShardWriter(file)
        for place, (name, data) in enumerate(zip(NAMES, DATA, strict=True)):
            row = SampleRow(9, 9, 9, 9, place % 2, 6 + place, 4, (3, 1, 0)[place], 1 + place)
            shard.add(name, row, data)
        shard.skip(3, "dog/\\xff.jpg", "it is gone")
        return shard.finish(PART, ORIGIN, {"max_side": None})


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    written = write(tmp_path / "s")
    foot, status = open_shard(tmp_path / "s")
    assert (foot.part, foot.origin, foot.options) == (PART, ORIGIN, {"max_side": None})
    assert (foot.records, foot.skipped) == (1, ((3, "dog/\\xff.jpg", "it is gone"),))
    assert [foot.name(place) for place in range(3)] == list(NAMES)
    assert foot.rows.tobytes() == written.rows.tobytes()
    assert foot.rows["size"].tolist() == [len(data) for data in DATA]
    assert foot.rows["kind"].tolist() == [3, 1, 0]
    assert foot.rows["file"].tolist() == foot.rows["time_ns"].tolist() == [0, 0, 0]
    raw = (tmp_path / "s").read_bytes()
    assert status.st_size == len(raw)
    for row, data, expected in zip(foot.rows, DATA, foot.checksums, strict=True):
        assert row["place"] % 64 == 0
        assert raw[row["place"] : row["place"] + row["size"]] == data
        assert checksum(data) == expected


def test_the_file_is_laid_out_as_the_documents_say(tmp_path: Path) -> None:
    write(tmp_path / "s")
    raw = (tmp_path / "s").read_bytes()
    magic, at, length, expected = struct.unpack_from("<8sQQQ", raw)
    assert magic == b"DDLPREC1"
    assert raw[32:64] == bytes(32)
    assert at % 64 == 0
    assert at + length == len(raw)
    assert checksum(raw[at:]) == expected
    (said,) = struct.unpack_from("<Q", raw, at)
    about = json.loads(raw[at + 8 : at + 8 + said])
    assert about["dataset"]["version"] == "ab" * 32
    assert [about[key] for key in ("format", "number", "of", "first", "samples")] == [1, 1, 2, 2, 3]
    assert about["packed"] == 1


def test_no_byte_of_head_or_foot_can_change_unnoticed(tmp_path: Path) -> None:
    write(tmp_path / "s")
    raw = (tmp_path / "s").read_bytes()
    (at,) = struct.unpack_from("<Q", raw, 8)
    for place in [*range(32), *range(at, len(raw))]:
        spoilt = bytearray(raw)
        spoilt[place] ^= 0x10
        (tmp_path / "s").write_bytes(spoilt)
        with pytest.raises(ValueError, match=r"otherwise|cut short|damaged"):
            open_shard(tmp_path / "s")


@pytest.mark.parametrize("kept", [0, 10, 63, 64, 500, -1])
def test_a_shard_that_was_cut_short_is_none(tmp_path: Path, kept: int) -> None:
    write(tmp_path / "s")
    os.truncate(tmp_path / "s", kept % (tmp_path / "s").stat().st_size)
    with pytest.raises(ValueError, match="it "):
        open_shard(tmp_path / "s")


def forged(path: Path, foot: bytes) -> Path:
    """A shard with another foot, and the checksum of that."""
    path.write_bytes(start_of_shard(HEAD_BYTES, foot) + foot)
    return path


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("place", 1 << 40),
        ("place", 2**64 - 1),
        ("place", 0),
        ("size", 1 << 40),
        ("size", 2**64 - 1),
        ("name_end", 1 << 40),
        ("name_end", 0),
        ("label", 2),
        ("width", 0),
        ("height", 0),
        ("kind", 2),
        ("kind", 4),
        ("orientation", 0),
        ("orientation", 9),
    ],
)
def test_rows_that_lead_elsewhere_are_refused(tmp_path: Path, field: str, value: int) -> None:
    foot = write(tmp_path / "s")
    rows = foot.rows.copy()
    rows["place"], rows["size"] = HEAD_BYTES, 0
    forged(tmp_path / "s", write_foot(replace(foot, rows=rows)))
    open_shard(tmp_path / "s")
    rows[field][1] = value
    forged(tmp_path / "s", write_foot(replace(foot, rows=rows)))
    with pytest.raises(ValueError, match="its rows are damaged"):
        open_shard(tmp_path / "s")


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"samples": 0},
        {"samples": 10**9},
        {"dataset": {}},
        {"dataset": None},
        {"options": 5},
        {"skipped": [1]},
        {"number": "x"},
    ],
)
def test_a_foot_that_says_something_else_is_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    foot = replace(write(tmp_path / "s"))
    raw = write_foot(foot)
    (length,) = struct.unpack_from("<Q", raw)
    said = json.dumps(json.loads(raw[8 : 8 + length]) | changes).encode()
    start = struct.pack("<Q", len(said)) + said
    rest = raw[(8 + length + 63) // 64 * 64 :]
    forged(tmp_path / "s", start + bytes(-len(start) % 64) + rest)
    with pytest.raises(ValueError, match=r"it|int|not"):
        open_shard(tmp_path / "s")


def test_names_are_those_of_numbers() -> None:
    assert shard_name(12, 120) == "pack-00012-of-00120.ddlp"
    assert parse_shard_name("pack-00012-of-00120.ddlp") == (12, 120)
    assert parse_shard_name(shard_name(123_456, 1_000_000)) == (123_456, 1_000_000)
    for name in (
        "pack-00120-of-00120.ddlp",
        "pack-000012-of-00120.ddlp",
        "pack-1-of-2.ddlp",
        ".pack-00012-of-00120.ddlp",
        "pack-00012-of-00120.ddlp.part",
        "pack-0001٢-of-00120.ddlp",
    ):
        assert parse_shard_name(name) is None


def test_checksums_are_of_64_bits(tmp_path: Path) -> None:
    foot = write(tmp_path / "s")
    assert foot.checksums.dtype == np.uint64
    assert int(foot.checksums[1]) == checksum(b"") > 2**60
