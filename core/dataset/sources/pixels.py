"""Brings arrays of pictures into one layout, N × height × width × 3 bytes, by a copy if need be."""

import zipfile
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from ddlp.core.dataset.layout import ROW
from ddlp.core.dataset.npy import ARCHIVE_ERRORS, ArrayPlace
from ddlp.core.dataset.progress import Progress
from ddlp.core.dataset.sources.cifar import PIXEL_BYTES, SIDE
from ddlp.core.dataset.writer import IndexWriter, PixelPlace
from ddlp.core.errors import InvalidInput
from ddlp.core.image import Kind

_PIECE_BYTES = 8 << 20
_PIECE_ROWS = 1 << 16

Pixels = npt.NDArray[np.uint8]


def pixel_shape(images: ArrayPlace) -> tuple[int, int]:
    """Height and width of pictures in any of the layouts taken."""
    if images.dtype != np.uint8:
        raise InvalidInput(
            f"{images.path} holds pixels of type {images.dtype}; convert them to uint8"
        )
    match images.shape:
        case _ if 0 in images.shape:
            pass
        case (_, height, width, 3 | 1) | (_, 3 | 1, height, width) | (_, height, width):
            return height, width
        case (_, size) if size == PIXEL_BYTES:
            return SIDE, SIDE
    raise InvalidInput(
        f"{images.path} holds an array of {' × '.join(map(str, images.shape))}; expected "
        "N × height × width × 3, N × 3 × height × width or N × height × width"
    )


def settle_pixels(
    images: ArrayPlace, shape: tuple[int, int], folder: Path, progress: Progress
) -> PixelPlace:
    """Where the pixels lie from now on: where they are, or in a copy to keep beside the index."""
    beside = None
    if images.member is not None:
        beside = folder / "decompressed"
        _decompress(images, beside, progress)
        images = ArrayPlace(beside, images.dtype, images.shape, images.fortran, 0)
    if images.shape[1:] == (*shape, 3) and not images.fortran:
        return PixelPlace(*shape, images.offset, beside)
    turned = folder / "turned"
    with turned.open("wb") as out:
        copy_pixels(_as_pixels(images.map()), out, progress)
    return PixelPlace(*shape, 0, turned)


def copy_pixels(pixels: Pixels, out: IO[bytes], progress: Progress) -> None:
    """Write out a view, a few pictures at a time."""
    step = max(1, _PIECE_BYTES // (pixels.shape[1] * pixels.shape[2] * 3))
    for start in range(0, len(pixels), step):
        out.write(np.ascontiguousarray(pixels[start : start + step]).tobytes())
        progress.poll()


def add_rows(
    writer: IndexWriter, labels: npt.NDArray[np.uint32], shape: tuple[int, int], file: int
) -> None:
    """Add the samples of one file, numbered from 0."""
    for start in range(0, len(labels), _PIECE_ROWS):
        piece = labels[start : start + _PIECE_ROWS]
        rows = np.zeros(len(piece), dtype=ROW)
        rows["size"] = shape[0] * shape[1] * 3
        rows["place"] = np.arange(start, start + len(piece))
        rows["file"], rows["label"] = file, piece
        rows["height"], rows["width"] = shape
        rows["kind"], rows["orientation"] = Kind.PIXELS, 1
        writer.samples.extend(rows)


def _as_pixels(array: Pixels) -> Pixels:
    """A view of an array in any of the layouts taken."""
    if array.ndim == 2:
        array = array.reshape(len(array), 3, SIDE, SIDE)
    if array.ndim == 3:
        array = array[..., None]
    if array.shape[3] not in (1, 3):
        array = array.transpose(0, 2, 3, 1)
    return np.broadcast_to(array, (*array.shape[:3], 3))


def _decompress(images: ArrayPlace, into: Path, progress: Progress) -> None:
    assert images.member is not None
    left = images.nbytes
    try:
        with (
            zipfile.ZipFile(images.path) as archive,
            archive.open(images.member) as member,
            into.open("wb") as out,
        ):
            member.read(images.offset)
            while left:
                data = member.read(min(left, _PIECE_BYTES))
                if not data:
                    raise ValueError("it ends too soon")
                out.write(data)
                left -= len(data)
                progress.poll()
    except ARCHIVE_ERRORS as error:
        raise InvalidInput(f"{images.path}: {images.member} is damaged ({error})") from error
