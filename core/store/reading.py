"""Checks that what was read is the very batch that was committed."""

import errno
import os
from pathlib import Path

from ddlp.core.batchfile import Array, BatchId, Head, unseal
from ddlp.core.errors import DamagedBatch, DdlpError, MissingBatch, Unavailable
from ddlp.core.maps import Maps

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
_DAMAGED = frozenset({errno.EIO, errno.EISDIR, errno.EBADMSG, errno.EUCLEAN})


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


def read_batch(
    path: Path, expected: BatchId, checksum: int, maps: Maps | None = None
) -> dict[str, Array]:
    """Map a finished batch and check it; the arrays lie in the file's own memory."""
    try:
        with path.open("r+b" if maps is not None and maps.writable else "rb") as file:
            nbytes = os.fstat(file.fileno()).st_size
            if not nbytes:
                raise DamagedBatch(f"{path} is empty")
            memory = (maps or Maps(writable=False)).map(file, nbytes)
    except OSError as error:
        raise unreadable(error, str(path)) from error
    return check_batch(memory, expected, checksum, str(path))


def unreadable(error: OSError, location: str) -> DdlpError:
    """What it means that a file cannot be read: only a damaged or missing one is made again."""
    if error.errno in _GONE:
        return MissingBatch(f"{location} is gone")
    if error.errno in _DAMAGED:
        return DamagedBatch(f"{location} cannot be read ({error.strerror})")
    return Unavailable(
        f"{location} cannot be read ({error.strerror}); check the rights and the mount of its store"
    )
