"""Places on the server that may hold a dataset: what is at a path, and how it could go on.

Only what lies below an allowed folder is ever looked at, links followed; hidden
names are left out, and of a large folder only so much is read.
"""

import os
from itertools import islice
from pathlib import Path

from ddlp.core.dataset.progress import ScanOptions
from ddlp.core.dataset.sources import recognise
from ddlp.core.dataset.sources.splits import HoldsSplits, Split
from ddlp.core.errors import DdlpError, NotAllowed
from ddlp.core.messages.statistics import PlacesInfo, SplitInfo
from ddlp.core.urls import refuse_address
from ddlp.server.datasets import allowed_path
from ddlp.server.roots import AllowedFolders

_MOST_SHOWN = 50
_MOST_READ = 5000
_ENDINGS = (".tar", ".npz", ".npy", ".bin", ".ddlp", ".csv", ".jsonl", ".ndjson", ".parquet")


def look(folders: AllowedFolders, prefix: str) -> PlacesInfo:
    """What is known of a path that somebody is typing."""
    found = _below(folders, prefix)
    splits = list[Split]()
    try:
        kind, problem = _judged(folders, prefix)
    except HoldsSplits as error:
        kind, problem, splits = None, str(error), error.splits
    return PlacesInfo(
        kind=kind,
        problem=problem,
        splits=[_split_info(split) for split in splits],
        places=found[:_MOST_SHOWN],
        more=len(found) > _MOST_SHOWN,
    )


def _split_info(split: Split) -> SplitInfo:
    problem = None
    if split.is_flat:
        problem = (
            f"{split.path} holds images without class folders, so these have no labels; sort them "
            "into class folders, or write a manifest with the columns path and label"
        )
    return SplitInfo(uri=str(split.path), name=split.name, problem=problem)


def _judged(folders: AllowedFolders, text: str) -> tuple[str | None, str | None]:
    """Which kind of dataset lies at a path, or why none can be registered there."""
    if not text:
        return None, None
    try:
        refuse_address(text)
        if not text.startswith(("/", "~")):
            return None, f"{text!r} is not a full path; begin with / as on the server"
        place = allowed_path(folders, text)
        if place.is_dir():
            return _folder_kind(place)
        return recognise(place, ScanOptions()).kind, None
    except NotAllowed:
        # Not where a link leads to: that is told nobody who may not look there.
        return None, str(folders.refusal(text))
    except HoldsSplits:
        raise
    except DdlpError as error:
        return None, str(error)


def _folder_kind(place: Path) -> tuple[str | None, str | None]:
    try:
        with os.scandir(place) as entries:
            some = list(islice((e for e in entries if not e.name.startswith(".")), _MOST_READ))
    except OSError as error:
        return None, f"{place} cannot be read ({error.strerror}); allow the server to"
    folders = any(entry.is_dir() for entry in some)
    if len(some) == _MOST_READ:  # too many to look at all of them while somebody types
        return ("folder", None) if folders else (None, None)
    kind = recognise(place, ScanOptions()).kind
    if kind == "folder" and not folders:
        return None, (
            f"{place} has no subfolders; give a folder with one subfolder of images a class, "
            "or a manifest, tar files or arrays"
        )
    return kind, None


def _below(folders: AllowedFolders, prefix: str) -> list[str]:
    """Paths that begin like this one, by name: one more than are shown at the most."""
    roots = [str(root) for root in folders.roots]
    above = sorted(root for root in roots if root.startswith(prefix))
    if not prefix.startswith("/") or "\0" in prefix:
        return above
    folder, begun = os.path.split(prefix)
    return (above or _entries(folder, begun, roots))[: _MOST_SHOWN + 1]


def _entries(folder: str, begun: str, roots: list[str]) -> list[str]:
    try:
        real = os.path.realpath(folder)
        if not _is_inside(real, roots):
            return []
        with os.scandir(folder) as entries:
            found = [
                os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "")
                for entry in islice(entries, _MOST_READ)
                if entry.name.startswith(begun) and _is_shown(entry, roots)
            ]
    except (OSError, ValueError):
        return []
    return sorted(found)


def _is_shown(entry: "os.DirEntry[str]", roots: list[str]) -> bool:
    if entry.name.startswith("."):
        return False
    if entry.is_symlink() and not _is_inside(os.path.realpath(entry.path), roots):
        return False
    if not entry.name.isprintable():  # it cannot be typed, and may not be text at all
        return False
    return entry.is_dir() or entry.name.lower().endswith(_ENDINGS)


def _is_inside(real: str, roots: list[str]) -> bool:
    return any(Path(real).is_relative_to(root) for root in roots)
