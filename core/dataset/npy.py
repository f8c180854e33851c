"""Finds arrays inside .npy and .npz files without loading them, and never unpickles anything."""

import ast
import lzma
import os
import struct
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ddlp.core.errors import InvalidInput
from ddlp.core.patience import Patience

ARCHIVE_ERRORS = (
    EOFError,
    NotImplementedError,  # a way to compress that this Python does not know
    RuntimeError,  # an archive with a password
    ValueError,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading a damaged archive may raise."""

_MAX_HEADER = 1 << 16
_LOCAL_HEADER = struct.Struct("<4s22xHH")


@dataclass(frozen=True)
class ArrayPlace:
    """An array's type, and where it lies: in a file at an offset, or compressed in a member."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    offset: int
    """Of its first element: in the file, or in the member once that is decompressed."""
    member: str | None = None
    """The compressed member of a .npz; None: it lies in the file as it is."""

    @property
    def nbytes(self) -> int:
        """How many bytes its elements take."""
        count = 1
        for side in self.shape:
            count *= side
        return count * self.dtype.itemsize

    def map(self) -> npt.NDArray[Any]:
        """The array, mapped; it must not be compressed."""
        order: Any = "F" if self.fortran else "C"
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)

    def load(self) -> npt.NDArray[Any]:
        """A copy of the array."""
        if self.member is None:
            return np.array(self.map()) if self.nbytes else np.empty(self.shape, self.dtype)
        order: Any = "F" if self.fortran else "C"
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
                file.read(self.offset)
                data = file.read(self.nbytes)
            return np.frombuffer(data, self.dtype).reshape(self.shape, order=order)
        except ARCHIVE_ERRORS as error:
            raise InvalidInput(f"{self.path}: {self.member} is damaged ({error})") from error


def find_arrays(path: Path) -> dict[str, ArrayPlace]:
    """The arrays of a .npz by name; that of a .npy under the name of the file."""
    try:
        return Patience().call("read", path, partial(_find_arrays, path))
    except (OSError, *ARCHIVE_ERRORS) as error:
        raise InvalidInput(f"{path} cannot be read as arrays: {error}") from error


def _find_arrays(path: Path) -> dict[str, ArrayPlace]:
    if path.suffix.lower() == ".npz":
        with zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            return {info.filename[:-4]: _in_archive(path, archive, info) for info in infos}
    with path.open("rb") as file:
        place = _place(path, file, 0)
        if place.offset + place.nbytes > os.fstat(file.fileno()).st_size:
            raise ValueError("it is cut short")
        return {path.stem: place}


def _in_archive(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> ArrayPlace:
    with archive.open(info) as member:
        place = _place(path, member, 0)
    if place.offset + place.nbytes > info.file_size:
        raise ValueError(f"{info.filename} is cut short")
    if info.compress_type != zipfile.ZIP_STORED:
        return ArrayPlace(
            path, place.dtype, place.shape, place.fortran, place.offset, info.filename
        )
    with path.open("rb") as file:
        file.seek(info.header_offset)
        magic, name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        if magic != b"PK\x03\x04":
            raise ValueError(f"{info.filename} does not lie where the archive says")
        begin = info.header_offset + _LOCAL_HEADER.size + name_length + extra_length
        offset = begin + place.offset
        if offset + place.nbytes > os.fstat(file.fileno()).st_size:
            raise ValueError(f"{info.filename} is cut short")
    return ArrayPlace(path, place.dtype, place.shape, place.fortran, offset)


def _place(path: Path, file: IO[bytes], start: int) -> ArrayPlace:
    """Read a .npy header: magic, version, length, a dictionary as Python writes it."""
    begin = file.read(8)
    if len(begin) < 8 or begin[:6] != b"\x93NUMPY" or begin[6] not in (1, 2, 3):
        raise ValueError("it is not a .npy file")
    width = 2 if begin[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > _MAX_HEADER:
        raise ValueError("its header is too long")
    try:
        said = ast.literal_eval(file.read(length).decode("utf-8" if begin[6] == 3 else "latin-1"))
        dtype, shape = np.dtype(said["descr"]), tuple(int(side) for side in said["shape"])
    except (SyntaxError, LookupError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError("its header is damaged") from error
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded; save plain numbers")
    if any(side < 0 for side in shape):
        raise ValueError("its header is damaged")
    return ArrayPlace(path, dtype, shape, bool(said["fortran_order"]), start + 8 + width + length)
