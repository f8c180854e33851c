"""Processes and folders that end with the feed of a run on this machine."""

import os
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path

from ddlp.core.errors import InvalidInput
from ddlp.core.janitor import Janitor
from ddlp.core.owned_folder import make_owned_folder
from ddlp.core.store import StoreAddress
from ddlp.loader.worker_process import WorkerProcess


@dataclass
class Owned:
    """What a feed owns."""

    pid: int
    """Whose they are."""
    janitor: Janitor
    workers: dict[str, WorkerProcess]
    folders: list[Path] = field(default_factory=list)

    def make_folder(self, base: Path) -> Path:
        """A new folder that goes in any case."""
        folder = make_owned_folder(base)
        self.folders.append(folder)
        self.janitor.watch(folder)
        return folder


def clear(owned: Owned, changed: threading.Condition, closed: threading.Event) -> None:
    """End the workers for good, then remove what they wrote; a forked child has no part in it."""
    if os.getpid() != owned.pid:
        return
    with changed:
        closed.set()
    for worker in owned.workers.values():
        worker.close()
    for folder in owned.folders:
        shutil.rmtree(folder, ignore_errors=True)
    owned.janitor.dismiss()


def store_folder(store: str | None, usual: Path) -> Path:
    """The folder that the settings name; what is made here lies on this machine."""
    if store is None:
        return usual
    folder = StoreAddress.given(store).folder
    if folder is None:
        raise InvalidInput(f"{store} is no folder; a run without a server keeps its batches in one")
    return folder
