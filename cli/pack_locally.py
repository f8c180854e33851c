"""Packs a dataset on this machine, without a server."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ddlp.cli.line import Line
from ddlp.cli.scan import scan_line
from ddlp.core import records
from ddlp.core.dataset import DatasetIndex, ScanProgress, scan
from ddlp.core.errors import InvalidInput
from ddlp.core.pixels import in_words
from ddlp.core.records import PackOptions, PackProgress
from ddlp.core.units import size


@dataclass(frozen=True)
class Job:
    """What is to be packed where, and how."""

    data: Path
    into: Path | None
    choice: dict[str, Any]
    processes: int | None

    def forecast(self) -> dict[str, Any]:
        """What it would come to."""
        with self._index() as index:
            found = asdict(records.forecast(index, self._options))
        return found | {
            "seconds": found["pack_s"] / self._processes,
            "processes": self._processes,
        }

    def pack(self) -> dict[str, Any]:
        """Pack it; shards that are there are kept."""
        if self.into is None:
            raise InvalidInput("name a folder for the shards with --into")
        into = self.into.expanduser().absolute()
        if into.is_relative_to(self.data.expanduser().absolute()):
            raise InvalidInput(
                f"{into} lies in {self.data}, whose contents would change by it; choose another"
            )
        with self._index() as index, Line() as line:
            total = index.samples
            made = records.pack_locally(
                index,
                self._options,
                into,
                self._processes,
                lambda now: line.show(packing_line(now, total)),
            )
        kept = made.samples - made.records - made.skipped
        ratio = made.bytes / made.origin_bytes if made.origin_bytes else None
        more = {"kept": kept, "ratio": ratio, "pixels": in_words(self._options)}
        return {"place": str(into), **asdict(made), **more}

    @property
    def _options(self) -> PackOptions:
        return PackOptions(**self.choice)

    @property
    def _processes(self) -> int:
        return self.processes or os.cpu_count() or 1

    @contextmanager
    def _index(self) -> Iterator[DatasetIndex]:
        """The index of what lies at the path, for as long as it is needed."""
        with tempfile.TemporaryDirectory(prefix="ddlp-pack-") as folder:
            path = Path(folder) / "index"
            with Line() as line:

                def report(now: ScanProgress) -> None:
                    line.show(scan_line(asdict(now)))

                scan(self.data.expanduser(), path, report=report)
            yield DatasetIndex(path)


def packing_line(now: PackProgress, total: int) -> str:
    """How far it is."""
    text = f"packing: {now.samples:,} of {total:,} samples, {now.shards:,} shards"
    if not now.origin_bytes:
        return text
    return f"{text}, {size(now.bytes)} ({now.bytes / now.origin_bytes:.2f} times)"
