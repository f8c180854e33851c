"""Walks over the headers of a tar file and says where each member lies, without unpacking."""

import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ddlp.core.dataset.files import read_at
from ddlp.core.errors import InvalidInput

_BLOCK = 512
_MAX_NOTE = 1 << 20
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"\x28\xb5": "zstd"}
_LONG_NAME, _NOTES, _GLOBAL_NOTES = b"L", (b"x", b"X"), b"g"


@dataclass(frozen=True)
class Member:
    """A regular file in a tar file."""

    name: str
    start: int
    size: int


class TarMembers:
    """The members of one tar file in their order; links, folders and devices are passed over."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file = file
        self._path = path
        self._size = os.fstat(file.fileno()).st_size
        self.damage: str | None = None
        """Set once a walk ended before the end of the file: why."""

    def __iter__(self) -> Iterator[Member]:
        try:
            yield from self._walk()
        except (ValueError, tarfile.TarError) as error:
            self.damage = str(error)

    def _walk(self) -> Iterator[Member]:
        at, notes = 0, dict[str, str]()
        while at < self._size:
            block = read_at(self._file, at, min(_BLOCK, self._size - at))
            if not any(block):
                return
            header = self._header(block, at)
            size = int(notes.get("size", header.size))
            start, at = at + _BLOCK, at + _BLOCK + size + -size % _BLOCK
            if size < 0 or start + size > self._size:
                raise ValueError(f"it is cut short in {header.name}")
            if header.type == _LONG_NAME:
                notes["path"] = _text(self._note(start, size).split(b"\0")[0])
            elif header.type in _NOTES:
                notes |= _records(self._note(start, size))
            elif header.type != _GLOBAL_NOTES:
                name = notes.get("path", header.name)
                if header.type == tarfile.GNUTYPE_SPARSE or any(
                    key.startswith("GNU.sparse.") for key in notes
                ):
                    raise InvalidInput(
                        f"{self._path} holds {name} as a sparse file, which cannot be read in "
                        "place; write the tar file again without --sparse"
                    )
                notes = {}
                if header.isreg():
                    yield Member(name, start, size)

    def _header(self, block: bytes, at: int) -> tarfile.TarInfo:
        if at == 0:
            for start, name in _COMPRESSED.items():
                if block.startswith(start) and block[257:262] != b"ustar":
                    raise InvalidInput(
                        f"{self._path} is compressed ({name}): tar files are read in place, "
                        "so decompress it first"
                    )
        try:
            return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise ValueError(f"its header at byte {at} is damaged ({error})") from error

    def _note(self, start: int, size: int) -> bytes:
        if size > _MAX_NOTE:
            raise ValueError(f"its header at byte {start - _BLOCK} is too long")
        return read_at(self._file, start, size)


def _records(note: bytes) -> dict[str, str]:
    """The records of an extended header: `LENGTH KEY=VALUE` and a line end, each."""
    found = {}
    while note:
        length, _, rest = note.partition(b" ")
        end = int(length) - len(length) - 1
        if not 0 < end <= len(rest):
            raise ValueError("an extended header is damaged")
        key, _, value = rest[: end - 1].partition(b"=")
        found[_text(key)] = _text(value)
        note = rest[end:]
    return found


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
