"""Reads a batch from an object store: a large one in parts, several at once."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from ddlp.core.errors import DamagedBatch, MissingBatch, Unavailable
from ddlp.core.store import StoreAddress
from ddlp.core.store.reading import check_batch
from ddlp.core.store.s3 import error_code, error_status, make_client, talking
from ddlp.core.types import ReadPath
from ddlp.loader.buffers import Buffers
from ddlp.loader.readers.base import Loaded, Wanted

log = logging.getLogger(__name__)

PART_BYTES = 8 << 20
_AT_ONCE = 4
_PIECE_BYTES = 1 << 20
_ATTEMPTS = 4
"""How often a part is asked for whose bytes stop coming; what gets no answer boto3 repeats."""
_PAUSE_S = 0.1
_NOT_FOUND, _NO_SUCH_RANGE = 404, 416


class S3Reader:
    """Reads objects into memory that is used again."""

    path = ReadPath.S3

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._client = make_client(connections=_AT_ONCE)
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="ddlp-s3")

    def read(self, wanted: Wanted) -> Loaded:
        """Read a batch and check it."""
        memory = self._buffers.take((wanted.nbytes,), np.dtype(np.uint8)).data
        starts = range(0, wanted.nbytes, PART_BYTES)
        parts = [
            self._pool.submit(self._read_part, wanted, memory[at : at + PART_BYTES], at)
            for at in starts
        ]
        wait(parts)  # all of them: the memory may be another's after this
        for part in parts:
            part.result()
        arrays = check_batch(memory, wanted.batch, wanted.checksum, wanted.location)
        return Loaded(arrays, wanted.nbytes, partial(self._give_back, wanted.location))

    def close(self) -> None:
        """Let go of threads and connections."""
        self._pool.shutdown(wait=False)
        self._client.close()

    def _read_part(self, wanted: Wanted, memory: memoryview, start: int) -> None:
        """Fill memory with an object's bytes from a place on; go on where they stopped coming."""
        done = 0
        for attempt in range(_ATTEMPTS):
            time.sleep(_PAUSE_S * attempt)
            done += self._read_on(wanted, memory[done:], start + done)
            if done == len(memory):
                return
        raise Unavailable(
            f"{wanted.location} stopped coming at byte {start + done}, again and again"
        )

    def _read_on(self, wanted: Wanted, memory: memoryview, start: int) -> int:
        """Ask once; says how many bytes came."""
        from botocore.exceptions import HTTPClientError, IncompleteReadError

        done = 0
        with closing(self._open(wanted, start, start + len(memory))) as body:
            try:
                while moved := body.readinto(memory[done : done + _PIECE_BYTES]):
                    done += moved
            except (HTTPClientError, IncompleteReadError) as error:
                log.info("%s stopped coming at byte %d (%s)", wanted.location, start + done, error)
        return done

    def _open(self, wanted: Wanted, start: int, end: int) -> Any:
        """The stream of an object's bytes from one place to another."""
        from botocore.exceptions import ClientError

        address = StoreAddress.parse(wanted.location)
        where = {"Bucket": address.bucket, "Key": str(address.path)}
        with talking(wanted.location):
            try:
                answer = self._client.get_object(**where, Range=f"bytes={start}-{end - 1}")
            except ClientError as error:
                if error_status(error) == _NOT_FOUND and error_code(error) != "NoSuchBucket":
                    raise MissingBatch(f"{wanted.location} is gone") from error
                if error_status(error) == _NO_SUCH_RANGE:
                    raise DamagedBatch(f"{wanted.location} ends before byte {start}") from error
                raise
        _check_size(wanted, answer, end - start)
        return answer["Body"]

    def _give_back(self, location: str) -> None:
        address = StoreAddress.parse(location)
        try:
            with talking(location):
                self._client.delete_object(Bucket=address.bucket, Key=str(address.path))
        except Unavailable as error:
            log.warning("%s stays until its run ends: %s", location, error)


def _check_size(wanted: Wanted, answer: dict[str, Any], nbytes: int) -> None:
    """An object is as large as it was committed, and no part of it is longer than was asked for."""
    total = str(answer.get("ContentRange", "")).rpartition("/")[2]
    if total.isdecimal() and int(total) != wanted.nbytes:
        answer["Body"].close()
        raise DamagedBatch(f"{wanted.location} has {total} bytes, not {wanted.nbytes}")
    if answer.get("ContentLength") != nbytes:
        answer["Body"].close()
        raise DamagedBatch(
            f"{wanted.location} came with {answer.get('ContentLength')} bytes, not {nbytes}"
        )
