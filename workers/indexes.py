"""Finds the index of a dataset: the server's own file where it is seen, else a copy of it."""

import hashlib
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ddlp.core.client import Client
from ddlp.core.dataset.relocated import moved, relocate
from ddlp.core.errors import NoRoom
from ddlp.core.messages import WorkSpec
from ddlp.core.passing import failed_words, is_full
from ddlp.core.patience import Patience, system_call

_KEPT = 16
"""Copies that are kept."""


class Indexes:
    """The indexes that a worker has at hand."""

    def __init__(self, client: Client, cache: Path, folders: Mapping[Path, Path]) -> None:
        self._client = client
        self._cache = cache
        self._folders = folders
        self._patience = Patience()

    def local(self, spec: WorkSpec) -> WorkSpec:
        """What is to be done, with an index that this host can open."""
        found = self.find(spec.index_path, spec.dataset_version, f"/runs/{spec.run}/index")
        return spec if found == spec.index_path else spec.model_copy(update={"index_path": found})

    def find(self, theirs: Path, version: str, route: str) -> Path:
        """The index that the server has at a path; a copy comes by its route.

        The version does not tell a dataset from its packed form, the server's path does.
        """
        if not self._folders and self._is_there(theirs):
            return theirs
        moves = sorted(f"{there}={here}" for there, here in self._folders.items())
        name = hashlib.sha256("\n".join([str(theirs), version, *moves]).encode()).hexdigest()
        copy = self._cache / name
        if not self._is_there(copy):
            try:
                self._patience.wait_out(partial(self._fetch, route, copy, version))
            except OSError as error:
                if not is_full(error):
                    raise
                raise NoRoom(f"{failed_words(error, 'write', copy)}; free some space") from error
            self._prune(copy)
        return copy

    def _is_there(self, path: Path) -> bool:
        """Whether a file can be read here; a copy serves where this user may not read it."""
        try:
            self._patience.call("stat", path, path.stat)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False
        return os.access(path, os.R_OK)

    def _fetch(self, route: str, copy: Path, version: str) -> None:
        with system_call("write", copy), self._client.stream(route) as source:
            relocate(source, copy, self._folders, version)

    def moved(self, path: Path) -> Path:
        """Where a path of the server's lies here."""
        return moved(path, self._folders)

    def _prune(self, newest: Path) -> None:
        """Let go of the oldest copies; whoever has one open keeps it."""
        copies = [path for path in self._cache.iterdir() if path != newest]
        copies.sort(key=lambda path: path.stat().st_mtime)
        for old in copies[: -(_KEPT - 1)]:
            old.unlink(missing_ok=True)
