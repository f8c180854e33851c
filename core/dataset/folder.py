"""Finds the images of a folder that has one subfolder a class."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ddlp.core.errors import InvalidInput

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})


@dataclass(frozen=True)
class FolderScan:
    """What a scan found: paths relative to the root, sorted, with sizes and labels beside them."""

    root: Path
    classes: tuple[str, ...]
    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    labels: tuple[int, ...]


def scan_folder(root: Path) -> FolderScan:
    """Scan a folder of images; the order is by class, then by path, whatever the disk says."""
    if not root.exists():
        raise InvalidInput(f"{root} does not exist; give a folder with one subfolder a class")
    if not root.is_dir():
        raise InvalidInput(f"{root} is not a folder; give a folder with one subfolder a class")
    try:
        classes = tuple(sorted(entry.name for entry in os.scandir(root) if entry.is_dir()))
        found = [
            (path, size, label)
            for label, name in enumerate(classes)
            for path, size in sorted(_images(root, name))
        ]
    except PermissionError as error:
        raise InvalidInput(f"{error.filename} cannot be read; check its permissions") from error
    if not found:
        raise InvalidInput(
            f"{root} holds no images; expected {root}/CLASS/IMAGE with one of the endings "
            + " ".join(sorted(IMAGE_SUFFIXES))
        )
    paths, sizes, labels = zip(*found, strict=True)
    return FolderScan(root, classes, paths, sizes, labels)


def _images(root: Path, below: str) -> Iterator[tuple[str, int]]:
    inside = os.path.realpath(root)
    for folder, _, names in os.walk(root / below):
        for name in names:
            if os.path.splitext(name)[1].lower() not in IMAGE_SUFFIXES:
                continue
            path = os.path.join(folder, name)
            if not os.access(path, os.R_OK):
                raise InvalidInput(f"{path} cannot be read; check its permissions or remove it")
            if os.path.islink(path) and not _is_below(os.path.realpath(path), inside):
                raise InvalidInput(
                    f"{path} links to a place outside {root}; copy the file or remove the link"
                )
            yield os.path.relpath(path, root), os.stat(path).st_size


def _is_below(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder
