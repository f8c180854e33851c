"""A store in a bucket: a batch is made in memory and put there in one request, whole or not at all.

    PREFIX/ddlp-run-RUN/EPOCH-INDEX-TOKEN

Credentials, region and endpoint are found where boto3 finds them: in the AWS_* variables
(AWS_ENDPOINT_URL for stores other than Amazon's), in its files, or from the machine's role.
"""

import io
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ddlp.core.batchfile import BatchId, TensorSpec, compress, layout
from ddlp.core.codecs import Codec
from ddlp.core.direct import PageMemory
from ddlp.core.errors import InvalidInput, NoRoom, Unavailable
from ddlp.core.store.address import StoreAddress
from ddlp.core.store.base import Fill, Room, StoredBatch
from ddlp.core.store.folder import fill_batch
from ddlp.core.store.names import RUN_PREFIX, batch_name, parse_run, run_folder
from ddlp.core.store.opening import StoreOptions

_CONNECT_TIMEOUT_S = 5
_READ_TIMEOUT_S = 30
_ATTEMPTS = 4
_LISTED_FOR_S = 5.0
"""How long a listing is believed. Meanwhile only what is written here is added to it, so that
several writers may overshoot a quota by what they write in this time."""
_FULL = re.compile("quota|storage ?full|insufficient ?storage", re.IGNORECASE)
_FULL_STATUS = 507
_SECRET = re.compile(r"//[^/@\s]*@")


class S3Store:
    """Writes and sweeps the batches of one device."""

    def __init__(self, address: StoreAddress, options: StoreOptions) -> None:
        self._address = address
        self._options = options
        self._client = make_client()
        self._memory = PageMemory()
        self._used = 0
        self._listed_at: float | None = None

    def write(self, batch: BatchId, tensors: Sequence[TensorSpec], fill: Fill) -> StoredBatch:
        """Make one batch in memory, and put it into the bucket in one request."""
        _, planned = layout(tensors)
        self._check_quota(planned)
        name = batch_name(batch.run, batch.epoch, batch.index, batch.token)
        with self._memory.taken(planned) as memory:
            made = fill_batch(memory, batch, tensors, fill)
            body = memory[: made.nbytes]
            if self._options.codec is not Codec.OFF:
                body = memoryview(compress(body, self._options.codec))
            with talking(self._address):
                self._client.put_object(
                    Bucket=self._address.bucket, Key=self._key(name), Body=MemoryFile(body)
                )
        self._used += len(body)
        return StoredBatch(f"{self._address.url}/{name}", len(body), made.checksum)

    def discard(self, run: uuid.UUID, epoch: int, index: int, token: int) -> None:
        """Forget what an attempt left that counts no more."""
        key = self._key(batch_name(run, epoch, index, token))
        with talking(self._address):
            self._client.delete_object(Bucket=self._address.bucket, Key=key)

    def remove_run(self, run: uuid.UUID) -> None:
        """Forget all objects of a run."""
        for page in self._pages(run_folder(run) + "/"):
            keys = [{"Key": found["Key"]} for found in page.get("Contents", ())]
            if keys:
                self._delete(keys)
        self._listed_at = None

    def runs(self) -> dict[uuid.UUID, float]:
        """The runs of which there is something, and for how many seconds nothing was written."""
        found: dict[uuid.UUID, float] = {}
        start = len(self._key(""))
        for page in self._pages(RUN_PREFIX):
            now = _said_at(page)
            for entry in page.get("Contents", ()):
                run = parse_run(entry["Key"][start:].partition("/")[0])
                if run is not None:
                    age_s = max(0.0, (now - entry["LastModified"]).total_seconds())
                    found[run] = min(age_s, found.get(run, age_s))
        return found

    def room(self) -> Room:
        """How full it is, and what its quota leaves; a bucket itself has no end that it tells."""
        used, quota = self._used_bytes(), self._options.quota_bytes
        return Room(used, None if quota is None else max(0, quota - used))

    def relax(self) -> None:
        """Let go of the memory in which batches are made."""
        self._memory.relax()

    def _check_quota(self, nbytes: int) -> None:
        quota = self._options.quota_bytes
        if quota is not None and self._used_bytes() + nbytes > quota:
            raise NoRoom(
                f"the store {self._address} has used up its quota of {quota} bytes; raise "
                "DDLP_STORE_QUOTA_BYTES, cancel runs that nobody trains with, or wait until "
                "batches are consumed"
            )

    def _used_bytes(self) -> int:
        """Bytes of all objects of all runs, as they were listed a few seconds ago at most."""
        now = time.monotonic()
        if self._listed_at is None or now - self._listed_at > _LISTED_FOR_S:
            pages = self._pages(RUN_PREFIX)
            self._used = sum(found["Size"] for page in pages for found in page.get("Contents", ()))
            self._listed_at = now
        return self._used

    def _pages(self, prefix: str) -> Iterator[dict[str, Any]]:
        pages = self._client.get_paginator("list_objects_v2")
        with talking(self._address):
            yield from pages.paginate(Bucket=self._address.bucket, Prefix=self._key(prefix))

    def _delete(self, keys: list[dict[str, str]]) -> None:
        with talking(self._address):
            answer = self._client.delete_objects(
                Bucket=self._address.bucket, Delete={"Objects": keys, "Quiet": True}
            )
        for error in answer.get("Errors", ()):
            raise Unavailable(
                f"{self._address} does not let go of {error.get('Key')} ({error.get('Code')})"
            )

    def _key(self, name: str) -> str:
        prefix = self._address.path
        return f"{prefix}/{name}" if prefix.parts else name


class MemoryFile(io.RawIOBase):
    """Memory as a file to read from, without a copy of the whole."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is: what got no answer is sent again from the beginning."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._memory)}
        self._at = max(0, starts[whence] + offset)
        return self._at

    def tell(self) -> int:
        """The place."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Copy what comes next."""
        part = self._memory[self._at : self._at + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def make_client(connections: int = 4) -> Any:
    """A client for object stores: it waits for so long, and asks so often, and no more.

    Batches carry checksums of their own, from end to end, so that none is added on the way.
    """
    try:
        import boto3.session
        from botocore.config import Config
    except ImportError as error:
        raise Unavailable(
            "boto3 is not installed, which s3: stores need; install it with: pip install 'ddlp[s3]'"
        ) from error
    config = Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        max_pool_connections=connections,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"payload_signing_enabled": False},
    )
    try:
        with talking("s3:"):
            return boto3.session.Session().client("s3", config=config)
    except ValueError as error:  # it is not a BotoCoreError, and quotes the address
        raise InvalidInput(f"AWS_ENDPOINT_URL: {_SECRET.sub('//', str(error))}") from error


@contextmanager
def talking(where: StoreAddress | str) -> Iterator[None]:
    """Say of what goes wrong with an object store where it did, and whether it is full."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        said = error_code(error), str(error.response.get("Error", {}).get("Message", ""))
        text = f"{where} answers {': '.join(filter(None, said))}"
        if error_status(error) == _FULL_STATUS or _FULL.search(said[0]):
            raise NoRoom(f"{text}; raise its quota, or wait until batches are consumed") from error
        raise Unavailable(f"{text}; check the bucket and the AWS_* variables") from error
    except BotoCoreError as error:
        raise Unavailable(
            f"{where} cannot be reached ({_SECRET.sub('//', str(error))}); "
            "check the network and the AWS_* variables"
        ) from error


def _said_at(page: dict[str, Any]) -> datetime:
    """When an answer was given, by the clock that objects are dated with."""
    said = page["ResponseMetadata"]["HTTPHeaders"].get("date")
    return parsedate_to_datetime(said) if said else datetime.now(UTC)


def error_code(error: Any) -> str:
    """An answer's word for what is wrong."""
    return str(error.response.get("Error", {}).get("Code", ""))


def error_status(error: Any) -> int:
    """An answer's HTTP status."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
