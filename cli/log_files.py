"""Shows what the parts that `ddlp up` started have logged."""

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from ddlp.core.errors import NotFound

_GLANCE_S = 0.2

Entry = tuple[str, str]
"""A part and a line of its log."""


def log_files(home: Path, part: str | None) -> dict[str, Path]:
    """The log files of a home folder by part, or that of one part."""
    folder = home / "logs"
    found = {path.stem: path for path in sorted(folder.glob("*.log"))}
    if not found:
        raise NotFound(
            f"there are no logs in {folder.absolute()}; start the parts with: ddlp up, or name "
            "their home folder with --home or DDLP_HOME"
        )
    if part is None:
        return found
    if part not in found:
        raise NotFound(f"there is no log of a part {part}; there are: {', '.join(found)}")
    return {part: found[part]}


def last_lines(files: dict[str, Path], count: int) -> Iterator[Entry]:
    """The last lines of each part, one part after the other."""
    for part, path in files.items():
        with path.open(errors="replace") as log:
            yield from ((part, line.rstrip("\n")) for line in deque(log, count))


def new_lines(files: dict[str, Path]) -> Iterator[Entry]:
    """Lines that are logged from now on, without end."""
    read = {part: path.stat().st_size for part, path in files.items()}
    while True:
        for part, path in files.items():
            with path.open("rb") as log:
                log.seek(read[part])
                # What has no end yet is being written, and read once it is whole.
                whole, newline, _ = log.read().rpartition(b"\n")
            read[part] += len(whole) + len(newline)
            if newline:
                yield from ((part, line) for line in whole.decode(errors="replace").split("\n"))
        time.sleep(_GLANCE_S)
