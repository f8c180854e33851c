"""Watches a store while a device works: what lies there under a final name is whole."""

import os
import threading
import uuid
from pathlib import Path

from ddlp.cli.conformance.findings import Finding, failed, not_checked, passed
from ddlp.core.batchfile import unseal
from ddlp.core.errors import DamagedBatch
from ddlp.core.store import is_batch_name, run_folder

CHECK = "whole or absent"
_PERIOD_S = 0.002


class Watcher(threading.Thread):
    """Reads every file of a run from end to end as soon as it appears."""

    def __init__(self, root: Path | None, run: uuid.UUID) -> None:
        super().__init__(name="watcher", daemon=True)
        self.root = root
        self.run_id = run
        self._folder = None if root is None else root / run_folder(run)
        self._stopping = threading.Event()
        self._checked: set[tuple[str, int]] = set()
        self.broken: list[str] = []

    @property
    def sees(self) -> bool:
        """Whether the run's folder is on this host; its name is like no other's."""
        return self._folder is not None and self._folder.is_dir()

    def run(self) -> None:
        """Look until told to stop."""
        while not self._stopping.wait(_PERIOD_S):
            self.look()

    def look(self) -> None:
        """Check the files that are new."""
        for path, inode in self._files():
            if (path.name, inode) not in self._checked:
                self._check(path, inode)

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        if self.is_alive():
            self.join(10)

    def finding(self) -> Finding:
        """What was seen."""
        if self.broken:
            return failed(
                CHECK,
                f"{self.broken[0]}: it was visible before it was whole; write batches under "
                "another name and rename them when they are sealed",
            )
        if not self._checked:
            return not_checked(
                CHECK,
                f"its store {self.root or 'is no folder, and'} cannot be seen from this host; run "
                "this command where it can be, as on the device itself",
            )
        return passed(
            CHECK, f"each of {len(self._checked)} files was whole from when it was first seen"
        )

    def _files(self) -> list[tuple[Path, int]]:
        if self._folder is None:
            return []
        try:
            with os.scandir(self._folder) as entries:
                found = [(Path(entry.path), entry.inode()) for entry in entries]
        except FileNotFoundError:
            return []
        return [
            (path, inode)
            for path, inode in found
            if is_batch_name(f"{path.parent.name}/{path.name}")
        ]

    def _check(self, path: Path, inode: int) -> None:
        """Read a file; one that was consumed meanwhile, and is used again, proves nothing."""
        problem = ""
        try:
            unseal(memoryview(path.read_bytes()))
        except DamagedBatch as error:
            problem = str(error)
        except FileNotFoundError:
            return
        try:
            still_there = path.stat().st_ino == inode
        except FileNotFoundError:
            return
        if problem and still_there:
            self.broken.append(f"{path.name} in {path.parent}: {problem}")
        self._checked.add((path.name, inode))
