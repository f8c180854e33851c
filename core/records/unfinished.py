"""Files that are whole or absent: written under a name of their own, renamed when all is on disk.

Whoever writes one holds a lock on it. A file that nobody holds was left by a process that died, and
is removed by the next one that writes there.
"""

import contextlib
import errno
import fcntl
import os
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ddlp.core.errors import InvalidInput, NoRoom
from ddlp.core.filesystem import filesystem_at
from ddlp.core.passing import is_full
from ddlp.core.patience import Patience, system_call

_ENDING = ".unfinished"
_BUFFER_BYTES = 1 << 20


def make_folder(folder: Path) -> None:
    """Make a folder to write files to, if it is not there."""
    try:
        Patience().call("mkdir", folder, partial(folder.mkdir, parents=True, exist_ok=True))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise_if_full(error, folder)
        raise InvalidInput(
            f"{folder} cannot be written to ({error.strerror}); choose another folder"
        ) from error


@contextlib.contextmanager
def whole_or_absent(path: Path, is_there: Callable[[], bool] = lambda: False) -> Iterator[BinaryIO]:
    """A file to write to; it gets its name if nothing goes wrong, and is gone otherwise.

    It is gone too if the same is there already when it is ready: others may rely on that one.
    """
    sweep(path.parent)
    making, file = _create(path)
    try:
        with file, system_call("write", path):
            yield file
            file.flush()
            os.fsync(file.fileno())
            _publish(making, path, is_there)
    except OSError as error:
        raise_if_full(error, path)
        raise
    finally:
        making.unlink(missing_ok=True)


def raise_if_full(error: OSError, path: Path) -> None:
    """Say so where a file could not be written for want of room."""
    if is_full(error):
        place = filesystem_at(path)
        raise NoRoom(
            f"no room for {path} ({error.strerror}, {place.kind} on {place.place}); free some "
            "space, then begin again: shards that are whole are kept"
        ) from error


def sweep(folder: Path) -> None:
    """Remove what processes left that are no more."""
    for path in folder.glob(f".*{_ENDING}"):
        with contextlib.suppress(OSError), path.open("rb") as file:  # locked, or gone meanwhile
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _create(path: Path) -> tuple[Path, BinaryIO]:
    """A file of our own; another process may take it for an abandoned one before it is locked."""
    while True:
        making = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_ENDING}")
        file = making.open("xb", buffering=_BUFFER_BYTES)
        with contextlib.suppress(OSError):  # a filesystem without locks: then nobody sweeps either
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return making, file
        file.close()


def _publish(making: Path, path: Path, is_there: Callable[[], bool]) -> None:
    """Give a file its name; one at a time, so that no two find that nothing is there."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a filesystem without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        if not is_there():
            making.rename(path)
            os.fsync(folder)
    finally:
        os.close(folder)
