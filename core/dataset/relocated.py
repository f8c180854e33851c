"""Copies an index for a host that sees the same dataset under another path."""

import json
import os
import struct
import uuid
from collections.abc import Mapping
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO

from ddlp.core.dataset.index import DatasetIndex
from ddlp.core.dataset.layout import MAGIC, padding
from ddlp.core.errors import InvalidInput

_LENGTH = struct.Struct("<Q")
_MOST_HEAD_BYTES = 64 << 20


def relocate(source: BinaryIO, into: Path, folders: Mapping[Path, Path], version: str) -> None:
    """Write the index that is read from `source` to a file, whole or not at all.

    What lies below one of `folders` is looked for below the one it stands for. The version of a
    dataset does not depend on where it lies.
    """
    start = source.read(16)
    if start[:8] != MAGIC or len(start) < 16:
        raise InvalidInput("what came is not a dataset index of this version")
    (length,) = _LENGTH.unpack_from(start, 8)
    if length > _MOST_HEAD_BYTES:
        raise InvalidInput(f"an index with a head of {length} bytes is not read")
    head = json.loads(source.read(length))
    source.read(padding(16 + length))
    if head["pixels"] is not None and head["pixels"].get("beside"):
        raise InvalidInput(
            f"the pixels of {head['root']} were unpacked beside the server's index; have this host "
            "see the server's home folder under the same path, or store the array uncompressed"
        )
    head["root"] = str(moved(Path(head["root"]), folders))
    raw = json.dumps(head).encode()
    new = into.with_name(f"{into.name}.{uuid.uuid4().hex}")
    into.parent.mkdir(parents=True, exist_ok=True)
    try:
        with new.open("wb") as file:
            file.write(MAGIC + _LENGTH.pack(len(raw)) + raw + bytes(padding(16 + len(raw))))
            copyfileobj(source, file, 1 << 20)
        found = DatasetIndex(new).version
        if found != version:
            raise InvalidInput(f"version {found[:12]} came where {version[:12]} was asked for")
        os.replace(new, into)
    finally:
        new.unlink(missing_ok=True)


def moved(path: Path, folders: Mapping[Path, Path]) -> Path:
    """Where a path of the server's lies here."""
    for theirs, ours in folders.items():
        if path.is_relative_to(theirs):
            return ours / path.relative_to(theirs)
    return path
