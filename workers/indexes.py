"""Finds the index of a run's dataset: the server's own file where it is seen, else a copy of it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from ddlp.core.client import Client
from ddlp.core.dataset.relocated import relocate
from ddlp.core.messages import WorkSpec

_KEPT = 16
"""Copies that are kept."""


class Indexes:
    """The indexes that a worker has at hand."""

    def __init__(self, client: Client, cache: Path, folders: Mapping[Path, Path]) -> None:
        self._client = client
        self._cache = cache
        self._folders = folders

    def local(self, spec: WorkSpec) -> WorkSpec:
        """What is to be done, with an index that this host can open."""
        if not self._folders and spec.index_path.exists():
            return spec
        moves = sorted(f"{theirs}={ours}" for theirs, ours in self._folders.items())
        name = hashlib.sha256("\n".join([spec.dataset_version, *moves]).encode()).hexdigest()
        copy = self._cache / name
        if not copy.exists():
            with self._client.stream(f"/runs/{spec.run}/index") as source:
                relocate(source, copy, self._folders, spec.dataset_version)
            self._prune(copy)
        return spec.model_copy(update={"index_path": copy})

    def _prune(self, newest: Path) -> None:
        """Let go of the oldest copies; whoever has one open keeps it."""
        copies = [path for path in self._cache.iterdir() if path != newest]
        copies.sort(key=lambda path: path.stat().st_mtime)
        for old in copies[: -(_KEPT - 1)]:
            old.unlink(missing_ok=True)
