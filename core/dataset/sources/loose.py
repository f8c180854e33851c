"""What sources have in common whose every sample is a file of its own."""

import os
from pathlib import Path

from ddlp.core.dataset.check import inspect
from ddlp.core.dataset.files import Fence, open_regular, shown
from ddlp.core.dataset.layout import SampleRow
from ddlp.core.dataset.progress import ScanOptions
from ddlp.core.dataset.sources.base import EncodedSource, join


class LooseSource(EncodedSource):
    """Samples that are files, named relative to the root."""

    def __init__(self, uri: Path, options: ScanOptions) -> None:
        super().__init__(uri, options)
        self._fence = Fence(self.root, options.allowed)

    def inspect(self, name: bytes, row: SampleRow) -> SampleRow:
        """Open the file, look at it, and note its size and when it was changed."""
        with open_regular(join(self.root, name)) as file:
            status = os.fstat(file.fileno())
            head = inspect(file, 0, status.st_size, self.options.check)
        row = row._replace(size=status.st_size, time_ns=status.st_mtime_ns)
        return self.completed(row, head)

    def show(self, name: bytes, row: SampleRow) -> str:
        """The file's path."""
        return shown(join(self.root, name))
