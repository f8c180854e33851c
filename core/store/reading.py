"""Checks that what was read is the very batch that was committed."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ddlp.core.batchfile import Array, BatchId, Head, unseal
from ddlp.core.errors import DamagedBatch, DdlpError, MissingBatch, Unavailable
from ddlp.core.maps import MappedFile, Maps
from ddlp.core.passing import failed_words, is_passing
from ddlp.core.patience import fault_of

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR})
_DAMAGED = frozenset({errno.EISDIR, errno.EBADMSG, errno.EUCLEAN})


def check_expected(head: Head, expected: BatchId, checksum: int, location: str) -> None:
    """Raise unless a file is the batch that stands in the ledger.

    Two holders of one lease publish under one name. Should what they made differ, since a file
    could be read by one and not by the other, only what was committed is taken.
    """
    if head.batch.key != expected.key:
        raise DamagedBatch(f"{location} holds another batch: {head.batch}")
    if head.checksum != checksum:
        raise MissingBatch(f"{location} was overwritten by another attempt with another result")


def check_batch(
    memory: memoryview,
    expected: BatchId,
    checksum: int,
    location: str,
    payload_checksum: int | None = None,
) -> dict[str, Array]:
    """Arrays over the memory of a file that is checked from end to end.

    The payload's checksum, as stored, need not be taken again by whoever has it.
    """
    try:
        head, arrays = unseal(memory, payload_checksum)
    except DamagedBatch as error:
        raise DamagedBatch(f"{location}: {error}") from error
    check_expected(head, expected, checksum, location)
    return arrays


def read_batch(path: Path, expected: BatchId, checksum: int) -> dict[str, Array]:
    """Map a finished batch and check it; the arrays lie in the file's own memory."""
    return check_mapped(map_batch(path, Maps(writable=False)), expected, checksum)


def map_batch(
    path: Path, maps: Maps, check: Callable[[os.stat_result], None] = lambda _: None
) -> MappedFile:
    """Map a finished batch, as large as it is; `check` sees the very file that is mapped."""
    with reading("open", path):
        file = path.open("r+b" if maps.writable else "rb")
    with file, reading("mmap", path):
        status = os.fstat(file.fileno())
        check(status)
        if not status.st_size:
            raise DamagedBatch(f"{path} is empty")
        return MappedFile(maps.map(file, status.st_size), str(path))


def check_mapped(file: MappedFile, expected: BatchId, checksum: int) -> dict[str, Array]:
    """As `check_batch`, of a mapped file; one that was cut short meanwhile is said to be so."""
    try:
        return check_batch(file.memory, expected, checksum, file.location)
    finally:
        file.check_whole()


@contextmanager
def reading(call: str, path: Path) -> Iterator[None]:
    """Say what it means that a system call at a batch's file fails."""
    try:
        yield
    except OSError as error:
        raise _unreadable(error, call, path) from error


def _unreadable(error: OSError, call: str, path: Path) -> DdlpError:
    """Only what is damaged or missing is made again; what may pass is tried again."""
    if error.errno in _GONE:
        return MissingBatch(f"{path} is gone")
    if is_passing(error):
        return fault_of(error, call, path)
    words = failed_words(error, call, path)
    if error.errno in _DAMAGED:
        return DamagedBatch(words)
    return Unavailable(f"{words}; check the rights and the mount of its store")
