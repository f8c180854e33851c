"""Arrays of raw pixels: .npz, .npy and CIFAR's binary files.

Pixels that already lie as N × height × width × 3 bytes are used where they are; others are copied
once into a file beside the index.
"""

import os
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from ddlp.core.dataset.check import reason_of
from ddlp.core.dataset.files import Fence, open_regular, shown
from ddlp.core.dataset.labels import number_labels
from ddlp.core.dataset.npy import ArrayPlace, find_arrays
from ddlp.core.dataset.progress import Progress, ScanOptions
from ddlp.core.dataset.sources.base import Source
from ddlp.core.dataset.sources.cifar import PIXEL_BYTES, SIDE, CifarFiles, find_cifar
from ddlp.core.dataset.sources.pixels import (
    add_rows,
    copy_pixels,
    pixel_shape,
    settle_pixels,
)
from ddlp.core.dataset.writer import IndexHead, IndexWriter, PixelPlace
from ddlp.core.errors import InvalidInput
from ddlp.core.patience import Patience, system_call

_PAIRS = (
    ("x", "y"),
    ("images", "labels"),
    ("image", "label"),
    ("data", "labels"),
    ("data", "fine_labels"),
    ("x_train", "y_train"),
    ("train_images", "train_labels"),
    ("arr_0", "arr_1"),
    ("x_test", "y_test"),
    ("test_images", "test_labels"),
)
_CLASS_NAMES = ("classes", "class_names", "label_names")

Labels = npt.NDArray[np.uint32]


class ArraySource(Source):
    """Raw pixels in the order of the array."""

    kind = "array"

    def __init__(self, uri: Path, options: ScanOptions) -> None:
        super().__init__(uri, options)
        self._fence = Fence(self.root, options.allowed)

    @property
    def root(self) -> Path:
        """The folder of the files."""
        return self.uri if self.uri.is_dir() else self.uri.parent

    @property
    def expected(self) -> str:
        """Samples at all."""
        return f"{self.uri} holds no samples"

    def collect(self, writer: IndexWriter, progress: Progress) -> IndexHead:
        """Take every picture of the array."""
        if not self.uri.is_dir() and self.uri.suffix.lower() in (".npy", ".npz"):
            return self._collect_array(writer, progress)
        return self._collect_cifar(writer, progress)

    def _collect_array(self, writer: IndexWriter, progress: Progress) -> IndexHead:
        self._fence.check(str(self.uri))
        status = _regular(self.uri)
        images, labels, names, ignored = self._find()
        if ignored:
            writer.note(f"These arrays of {self.uri.name} are ignored: {', '.join(ignored)}.")
        shape = pixel_shape(images)
        if labels.shape[:1] != images.shape[:1]:
            raise InvalidInput(
                f"{self.uri} has {images.shape[0]} images, but labels for {labels.shape[:1]}"
            )
        named = names.load() if names is not None else None
        numbers, classes = number_labels(
            self.uri, labels.load(), named, as_classes=self.options.as_classes
        )
        progress.add(found=len(numbers), current=str(self.uri))
        file = writer.add_file(os.fsencode(self.uri.name), status.st_size, status.st_mtime_ns)
        place = settle_pixels(images, shape, writer.folder, progress)
        add_rows(writer, numbers, shape, file)
        progress.add(done=len(numbers), size=len(numbers) * shape[0] * shape[1] * 3)
        if _regular(self.uri).st_mtime_ns != status.st_mtime_ns:
            raise InvalidInput(f"{self.uri} was changed while it was scanned; do it again")
        return IndexHead(self.kind, self.root, classes, pixels=place)

    def _find(self) -> tuple[ArrayPlace, ArrayPlace, ArrayPlace | None, list[str]]:
        """Images, labels, the names of the classes where they are given, and names of the rest."""
        arrays = {name.lower(): array for name, array in find_arrays(self.uri).items()}
        if self.uri.suffix.lower() == ".npy":
            (images,) = arrays.values()
            return images, self._labels_beside(), None, []
        for image_name, label_name in _PAIRS:
            if image_name in arrays and label_name in arrays:
                named = next((name for name in _CLASS_NAMES if name in arrays), None)
                ignored = sorted(arrays.keys() - {image_name, label_name, named})
                names = arrays[named] if named is not None else None
                return arrays[image_name], arrays[label_name], names, ignored
        raise InvalidInput(
            f"{self.uri} holds the arrays {', '.join(sorted(arrays)) or 'none'}; expected images "
            f"and labels as {', '.join('/'.join(pair) for pair in _PAIRS)}"
        )

    def _labels_beside(self) -> ArrayPlace:
        for separator in "-.":
            path = self.uri.with_name(f"{self.uri.stem}{separator}labels.npy")
            if path.exists():
                self._fence.check(str(path))
                _regular(path)
                (labels,) = find_arrays(path).values()
                return labels
        raise InvalidInput(f"{self.uri} needs its labels in {self.uri.stem}-labels.npy beside it")

    def _collect_cifar(self, writer: IndexWriter, progress: Progress) -> IndexHead:
        files = find_cifar(self.uri)
        if files is None:
            raise InvalidInput(
                f"{self.uri} is not in CIFAR's binary format; expected records of "
                f"{1 + PIXEL_BYTES} or {2 + PIXEL_BYTES} bytes"
            )
        self._fence.check(str(files.names_path))
        names, most = files.classes(), 0
        beside = writer.folder / "pixels"
        with beside.open("wb") as out:
            for path in files.paths:
                self._fence.check(str(path))
                try:
                    with system_call("read", path):
                        labels = _copy_cifar(path, files, out, writer, progress)
                except (OSError, ValueError) as error:
                    writer.reject(shown(os.fsencode(path)), reason_of(error))
                    progress.add(found=1, done=1, rejected=1, current=str(path))
                    continue
                most = max(most, int(labels.max()))
        classes = names or tuple(str(number) for number in range(most + 1))
        if most >= len(classes):
            raise InvalidInput(f"{self.uri} has label {most}, but {len(classes)} class names")
        return IndexHead(self.kind, self.root, classes, pixels=PixelPlace(SIDE, SIDE, 0, beside))


def _copy_cifar(
    path: Path, files: CifarFiles, out: IO[bytes], writer: IndexWriter, progress: Progress
) -> Labels:
    """Copy one file's pictures, turned from planes to pixels, and add its samples."""
    with open_regular(str(path)) as file:
        status = os.fstat(file.fileno())
        count, left = divmod(status.st_size, files.record_bytes)
        if left or not count:
            raise ValueError(f"it is not a whole number of {files.record_bytes}-byte records")
        progress.add(found=count, current=str(path))
        records = np.memmap(file, np.uint8, "r", shape=(count, files.record_bytes))
        labels: Labels = records[:, files.label_bytes - 1].astype(np.uint32)
        planes = records[:, files.label_bytes :].reshape(count, 3, SIDE, SIDE)
        copy_pixels(planes.transpose(0, 2, 3, 1), out, progress)
    number = writer.add_file(os.fsencode(path.name), status.st_size, status.st_mtime_ns)
    add_rows(writer, labels, (SIDE, SIDE), number)
    progress.add(done=count, size=count * PIXEL_BYTES)
    return labels


def _regular(path: Path) -> os.stat_result:
    try:
        with Patience().call("open", path, partial(open_regular, str(path))) as file:
            return os.fstat(file.fileno())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path}: {reason_of(error)}") from error
