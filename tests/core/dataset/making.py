"""Small images, folders of them, and scans that need no more than a name."""

import functools
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ddlp.core.dataset import DatasetIndex, ScanOptions, scan


@functools.cache
def picture(form: str = "JPEG", width: int = 5, height: int = 4, orientation: int = 1) -> bytes:
    """An encoded image."""
    out = io.BytesIO()
    image = Image.linear_gradient("L").resize((width, height)).convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(out, form, exif=exif) if orientation > 1 else image.save(out, form)
    return out.getvalue()


def put(root: Path, *names: str, data: bytes | None = None) -> None:
    """Files below a root; images unless told otherwise."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture() if data is None else data)


def index_of(uri: Path, into: Path | None = None, **options: Any) -> DatasetIndex:
    """Scan a place, and open what came of it."""
    into = into or uri.parent / f"{uri.name}.idx"
    scan(uri, into, ScanOptions(threads=3, **options))
    return DatasetIndex(into)


def names(index: DatasetIndex) -> list[str]:
    """The samples' names without the root."""
    start = f"{index.root}/"
    return [index.name(sample).removeprefix(start) for sample in range(index.samples)]


def labels(index: DatasetIndex) -> list[int]:
    """The samples' labels, each asked for alone."""
    return [int(index.labels(np.asarray([sample]))[0]) for sample in range(index.samples)]


def rejected(index: DatasetIndex) -> dict[str, str]:
    """Why files were left out, by their names without the root."""
    start = f"{index.root}/"
    return {found.name.removeprefix(start): found.reason for found in index.list_rejected()}
