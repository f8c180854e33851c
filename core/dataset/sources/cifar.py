"""CIFAR's binary files: one or two bytes of labels, then a 32 × 32 picture, plane after plane."""

import os
from dataclasses import dataclass
from pathlib import Path

SIDE = 32
PIXEL_BYTES = 3 * SIDE * SIDE
_NAMES = {1: "batches.meta.txt", 2: "fine_label_names.txt"}


@dataclass(frozen=True)
class CifarFiles:
    """The files of one set, and how many bytes of labels each record begins with."""

    paths: tuple[Path, ...]
    label_bytes: int

    @property
    def record_bytes(self) -> int:
        """The size of a record; the last byte of its labels is the one that counts."""
        return self.label_bytes + PIXEL_BYTES

    @property
    def names_path(self) -> Path:
        """Where the names of the classes lie, if they do."""
        return self.paths[0].parent / _NAMES[self.label_bytes]

    def classes(self) -> tuple[str, ...] | None:
        """The names that lie beside the files, if any."""
        if not self.names_path.is_file():
            return None
        lines = self.names_path.read_text(errors="replace").splitlines()
        return tuple(line.strip() for line in lines if line.strip())


def find_cifar(uri: Path) -> CifarFiles | None:
    """The training files of a folder, or the one file named; None if they are something else."""
    paths: tuple[Path, ...] = (uri,)
    if uri.is_dir():
        names = sorted(name for name in os.listdir(uri) if _is_binary(name))
        batches = [name for name in names if name.startswith("data_batch_")]
        train = [name for name in names if name == "train.bin"]
        paths = tuple(uri / name for name in batches or train or names)
    sizes = [path.stat().st_size for path in paths]
    for label_bytes in (1, 2):
        files = CifarFiles(paths, label_bytes)
        if any(size and size % files.record_bytes == 0 for size in sizes):
            return files
    return None


def _is_binary(name: str) -> bool:
    return name.endswith(".bin") and not name.startswith(".")
