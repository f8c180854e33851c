"""Folders that belong to one process, swept by the next one if it died without clearing up."""

import os
import shutil
import tempfile
from pathlib import Path

from ddlp.core.process import is_alive

_PREFIX = "ddlp-local-"


def make_owned_folder(base: Path) -> Path:
    """A new folder below `base` that names this process as its owner."""
    base.mkdir(parents=True, exist_ok=True)
    sweep(base)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))


def sweep(base: Path) -> None:
    """Remove the folders of owners that are no more."""
    for folder in base.glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).split("-")[0]
        if owner.isascii() and owner.isdigit() and not is_alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def shared_memory() -> Path:
    """Where memory-backed files go: tmpfs, or the ordinary place for temporary files without it."""
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
