"""Small datasets of every kind of picture, packed."""

import io
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.image import engine_reason
from ddlp.core.records import PackOptions, ShardSummary, pack_shard, plan_shards
from tests.core.image.corpus import picture

NEEDS_KERNEL = pytest.mark.skipif(
    engine_reason() is not None, reason=f"packing needs the kernel: {engine_reason()}"
)
PER_SHARD = 7


def encoded(mode: str = "RGB", side: int = 64, form: str = "JPEG", **options: Any) -> bytes:
    """A picture with edges and noise in it."""
    shown = Image.fromarray(picture(side + 9, side)).convert(mode)
    out = io.BytesIO()
    shown.save(out, form, **options)
    return out.getvalue()


def undecodable() -> bytes:
    """A JPEG that looks well until it is decoded: its Huffman tables are nonsense."""
    good = bytearray(encoded(side=150))
    at = good.index(b"\xff\xc4") + 6
    good[at : at + 8] = b"\xff" * 8
    return bytes(good)


def turned(orientation: int) -> Image.Exif:
    """EXIF data that ask for a turn."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010E] = "a description"
    return exif


def mixed() -> dict[str, bytes]:
    """Pictures by name: most become records, some cannot."""
    found = {
        f"sampling{n}.jpg": encoded(side=90 + 17 * n, subsampling=n, quality=90) for n in range(3)
    }
    found |= {f"turned{n}.jpg": encoded(side=70 + n, exif=turned(n)) for n in range(2, 9)}
    found |= {
        "grey.jpg": encoded("L", 120),
        "progressive.jpg": encoded(side=200, progressive=True),
        "restart.jpg": encoded(side=99, restart_marker_blocks=3),
        "cmyk.jpg": encoded("CMYK", 80),
        "large.jpg": encoded(side=520, quality=75),
        "tiny.jpg": encoded(side=1),
        "plain.png": encoded(side=77, form="PNG"),
        "palette.png": encoded("P", 77, "PNG"),
        "alpha.png": encoded("RGBA", 60, "PNG"),
        "web.webp": encoded(side=50, form="WEBP"),
    }
    return found


RECORDS = 15
"""Of `mixed`."""


def dataset(root: Path, pictures: dict[str, bytes] | None = None) -> DatasetIndex:
    """Pictures in two classes, in a shuffled order, and their index."""
    pictures = mixed() if pictures is None else pictures
    names = sorted(pictures)
    random.Random(3).shuffle(names)
    for number, name in enumerate(names):
        path = root / "data" / ("cat", "dog")[number % 2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pictures[name])
    scan(root / "data", root / "data.idx")
    return DatasetIndex(root / "data.idx")


def pack(
    index: DatasetIndex, into: Path, per_shard: int = PER_SHARD, **options: Any
) -> list[ShardSummary]:
    """Every shard, in this process."""
    plan = plan_shards(index.samples, per_shard)
    chosen = PackOptions(**options)
    return [pack_shard(index, plan, number, chosen, into) for number in range(len(plan))]


def packed(index: DatasetIndex, into: Path, **options: Any) -> DatasetIndex:
    """A dataset, packed and indexed."""
    pack(index, into, **options)
    scan(into, into.with_suffix(".idx"))
    return DatasetIndex(into.with_suffix(".idx"))


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, hidden ones too."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def everything(index: DatasetIndex) -> np.ndarray[Any, np.dtype[np.int64]]:
    """All samples."""
    return np.arange(index.samples)


def spoil(path: Path, at: int, how: int = 0xFF) -> None:
    """Change one byte of a file, but neither its size nor its time."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[at] ^= how
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
