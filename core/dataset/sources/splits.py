"""Splits: a folder whose subfolders are `train`, `val` and the like is not one dataset."""

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ddlp.core.dataset.files import is_image
from ddlp.core.errors import InvalidInput
from ddlp.core.passing import is_passing

NAMES = frozenset(
    {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval"}
)
_MOST_READ = 2000
"""How much of a folder is read to see what it holds."""


@dataclass(frozen=True)
class Split:
    """One of the splits of a dataset."""

    path: Path
    name: str
    """What a dataset of it would be called."""
    is_flat: bool
    """Whether it holds images without class folders: they have no labels."""


class HoldsSplits(InvalidInput):
    """A place holds several datasets instead of one."""

    def __init__(self, uri: Path, splits: list[Split]) -> None:
        self.splits = splits
        super().__init__(_words(uri, splits))


def find_splits(uri: Path) -> list[Split]:
    """The splits in a folder; none where it has classes beside them."""
    folders = sorted(_folders(uri))
    found = [name for name in folders if is_split(name)]
    others = (name for name in folders if not is_split(name))
    if len({name.lower() for name in found}) < 2 or any(_has_images(uri / o) for o in others):
        return []
    base = dataset_name(uri)
    return [
        Split(uri / name, f"{base}-{name.lower()}"[-64:].lstrip("-._"), _is_flat(uri / name))
        for name in found
    ]


def refuse_splits(uri: Path) -> None:
    """Refuse a folder that holds splits."""
    splits = find_splits(uri) if uri.is_dir() else []
    if splits:
        raise HoldsSplits(uri, splits)


def is_split(name: str) -> bool:
    """Whether a folder's name is that of a split, in any case."""
    return name.lower() in NAMES


def dataset_name(place: Path) -> str:
    """A name that can be given to a dataset; empty where none can be made."""
    stem = place.name if place.is_dir() else place.name.split(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:64]


def _words(uri: Path, splits: list[Split]) -> str:
    names = ", ".join(split.path.name for split in splits)
    usable = [split for split in splits if not split.is_flat]
    flat = [split.path.name for split in splits if split.is_flat]
    as_classes = "if they are classes all the same, say --as-classes (REST: as_classes)"
    without = (
        f"{' and '.join(flat)} holds images without class folders, so these have no labels: sort "
        "them into class folders, or write a manifest with the columns path and label"
    )
    if not usable:
        return f"{uri} holds splits, not classes: {names}; {without}; {as_classes}"
    commands = "; ".join(
        f"ddlp dataset add {shlex.quote(str(split.path))} --name {split.name}" for split in usable
    )
    return (
        f"{uri} holds splits, not classes: {names}; add each as a dataset of its own: {commands}; "
        f"or all of them at once with --splits; {f'{without}; ' if flat else ''}{as_classes}"
    )


def _is_flat(folder: Path) -> bool:
    """Whether images lie in a folder itself and in none of its subfolders."""
    if not any(is_image(name) for name in _some(folder)):
        return False
    return not any(_has_images(folder / name) for name in _folders(folder))


def _has_images(folder: Path) -> bool:
    """Whether a folder or one of its subfolders holds images, as far as a look tells."""
    if any(is_image(name) for name in _some(folder)):
        return True
    return any(is_image(name) for sub in _folders(folder) for name in _some(folder / sub))


def _folders(folder: Path) -> Iterator[str]:
    return (name for name in _some(folder) if (folder / name).is_dir())


def _some(folder: Path) -> Iterator[str]:
    """The first names in a folder, without hidden ones."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MOST_READ)]
    except OSError as error:
        if is_passing(error):
            raise
        return iter(())
    return (name for name in names if not name.startswith("."))
