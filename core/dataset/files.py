"""Decides which files a scan and a run may open, and opens them."""

import contextlib
import functools
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from ddlp.core.errors import InvalidInput
from ddlp.core.image.backend import read_fully

READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""For reading; what blocks when it is opened, a pipe, is not waited for."""
CHANGED = "it was changed after it was indexed"
IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})


def is_image(name: str) -> bool:
    """Whether a name has one of the usual endings."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES


class Fence:
    """Keeps links and paths below the root or a folder allowed; `allowed` None lets all pass."""

    def __init__(self, root: Path, allowed: Sequence[Path] | None) -> None:
        self._limits = None
        if allowed is not None:
            self._limits = [str(path.resolve()) for path in (root, *allowed)]
        self._real_folder = functools.lru_cache(maxsize=10_000)(os.path.realpath)

    def check(self, path: str) -> None:
        """Refuse a path that leads outside; its folder is looked up once for many."""
        if self._limits is None:
            return
        folder, name = os.path.split(path)
        if name in ("", ".", "..") or os.path.islink(path):
            self.check_real(path, os.path.realpath(path))
        else:
            self.check_real(path, self._real_folder(folder))

    def check_real(self, path: str, real: str) -> None:
        """Refuse a path whose real place is known."""
        if self._limits is None:
            return
        if any(os.path.commonpath([real, limit]) == limit for limit in self._limits):
            return
        raise InvalidInput(
            f"{path} leads to {real}, outside the allowed folders; copy it, or allow that place "
            "with: ddlp roots add FOLDER"
        )


def open_regular(path: str | bytes) -> BinaryIO:
    """Open a file for reading; a pipe or a device is refused, and not waited for."""
    number = os.open(path, READ_FLAGS)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise ValueError("it is not a regular file")
    return os.fdopen(number, "rb", buffering=0)


@contextlib.contextmanager
def open_unchanged(path: bytes, size: int, time_ns: int) -> Iterator[BinaryIO]:
    """Open a file that is still the one that was indexed; a ValueError where it is not."""
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        if status.st_size != size or status.st_mtime_ns != time_ns:
            raise ValueError(CHANGED)
        yield file


def read_unchanged(path: bytes, size: int, time_ns: int, start: int, length: int) -> bytes:
    """Part of a file that is still the one that was indexed, by as few calls as there can be."""
    if start + length > size:
        raise ValueError(CHANGED)
    number = descriptor_of_unchanged(path, size, time_ns)
    try:
        return read_fully(number, start, length)
    finally:
        os.close(number)


def descriptor_of_unchanged(path: bytes, size: int, time_ns: int) -> int:
    """As `open_unchanged`, for whoever closes it himself."""
    number = os.open(path, READ_FLAGS)
    try:
        status = os.fstat(number)
        if status.st_size != size or status.st_mtime_ns != time_ns:
            raise ValueError(CHANGED)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
    except BaseException:
        os.close(number)
        raise
    return number


def read_at(file: BinaryIO, start: int, size: int) -> bytes:
    """Exactly `size` bytes from a place of a file; a ValueError where it is shorter."""
    return read_fully(file.fileno(), start, size)


def shown(name: bytes) -> str:
    """A file's name as text that can be stored and printed, whatever its bytes."""
    return name.decode(errors="backslashreplace")
