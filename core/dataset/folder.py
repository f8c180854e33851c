"""Finds the images of a folder that has one subfolder a class."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddlp.core.errors import InvalidInput

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})


@dataclass(frozen=True)
class FolderScan:
    """What a scan found: paths relative to the root, sorted, and what is known of each."""

    root: Path
    classes: tuple[str, ...]
    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    times_ns: tuple[int, ...]
    """When each file was changed last: tells a file that was replaced by one of the same size."""
    labels: tuple[int, ...]


def scan_folder(root: Path, allowed: Sequence[Path] | None = None) -> FolderScan:
    """Scan a folder of images; the order is by class, then by path, whatever the disk says.

    Links are followed to places below the root or below a folder allowed, if those are given.
    """
    root = root.absolute()
    if not _exists(root):
        raise InvalidInput(f"{root} does not exist; give a folder with one subfolder a class")
    if not root.is_dir():
        raise InvalidInput(f"{root} is not a folder; give a folder with one subfolder a class")
    limits = None if allowed is None else [str(path.resolve()) for path in (root, *allowed)]
    try:
        classes = sorted(e.name for e in _entries(str(root)) if e.is_dir())
        found = [
            (os.path.relpath(path, root), status.st_size, status.st_mtime_ns, label)
            for label, name in enumerate(classes)
            for path, status in sorted(_images(str(root / name), limits, frozenset()))
        ]
    except OSError as error:
        raise InvalidInput(
            f"{error.filename} cannot be read ({error.strerror}); correct that or remove it"
        ) from error
    if not found:
        raise InvalidInput(
            f"{root} holds no images; expected {root}/CLASS/IMAGE with one of the endings "
            + " ".join(sorted(IMAGE_SUFFIXES))
        )
    for name in classes:
        if os.fsencode(name) != name.encode(errors="replace"):
            raise InvalidInput(f"the folder {name!r} of {root} cannot be a class name; rename it")
    paths, sizes, times_ns, labels = zip(*found, strict=True)
    return FolderScan(root, tuple(classes), paths, sizes, times_ns, labels)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error


def _entries(folder: str) -> list["os.DirEntry[str]"]:
    with os.scandir(folder) as entries:
        return [entry for entry in entries if not entry.name.startswith(".")]


def _images(
    folder: str, limits: list[str] | None, above: frozenset[str]
) -> Iterator[tuple[str, os.stat_result]]:
    """The images of a folder and of those below it; a link back to one above is not followed."""
    real = os.path.realpath(folder)
    _check_inside(folder, real, limits)
    if real in above:
        return
    for entry in _entries(folder):
        if entry.is_dir():
            yield from _images(entry.path, limits, above | {real})
        elif os.path.splitext(entry.name)[1].lower() in IMAGE_SUFFIXES:
            if entry.is_symlink():
                _check_inside(entry.path, os.path.realpath(entry.path), limits)
            yield entry.path, _regular(entry.path)


def _regular(path: str) -> os.stat_result:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"{path} is not a regular file; remove it")
    if not os.access(path, os.R_OK):
        raise InvalidInput(f"{path} cannot be read; check its permissions or remove it")
    return status


def _check_inside(path: str, real: str, limits: list[str] | None) -> None:
    if limits is None or any(os.path.commonpath([real, limit]) == limit for limit in limits):
        return
    raise InvalidInput(
        f"{path} links to {real}, outside the folders allowed; copy it, or allow that place with "
        "ddlp up --allow"
    )
