"""Batches from an object store: in parts, over bad lines, and clear about what is not there."""

import logging
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from botocore.exceptions import ReadTimeoutError

from ddlp.core.errors import DamagedBatch, MissingBatch, Unavailable
from ddlp.core.store import StoreAddress, StoreOptions
from ddlp.core.store.s3 import S3Store
from ddlp.loader.buffers import Buffers
from ddlp.loader.readers import s3 as s3_module
from ddlp.loader.readers.base import Wanted
from ddlp.loader.readers.s3 import S3Reader
from tests.core.store.making import batch_id, write
from tests.core.store.s3_server import SECRET

BATCH = batch_id(samples=16)
PART = 64 << 10


@pytest.fixture
def wanted(bucket: StoreAddress) -> Wanted:
    stored = write(S3Store(bucket, StoreOptions()), BATCH, value=7, side=64)
    return Wanted(BATCH, stored.checksum, stored.nbytes, stored.location)


@pytest.fixture
def reader(bucket: StoreAddress, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Reader]:
    monkeypatch.setattr(s3_module, "PART_BYTES", PART)
    monkeypatch.setattr(s3_module, "_PIECE_BYTES", 4096)
    monkeypatch.setattr(s3_module, "_PAUSE_S", 0.0)
    reader = S3Reader(Buffers())
    yield reader
    reader.close()


class Line:
    """Listens to what is asked for, and may break the streams that answer."""

    def __init__(self, reader: S3Reader, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ranges: list[str] = []
        self.breaks = 0
        self._get = reader._client.get_object
        monkeypatch.setattr(reader._client, "get_object", self._listen)

    def _listen(self, **where: Any) -> Any:
        self.ranges.append(where["Range"])
        answer = self._get(**where)
        if self.breaks:
            self.breaks -= 1
            answer["Body"] = BrokenStream(answer["Body"])
        return answer


class BrokenStream:
    def __init__(self, stream: Any) -> None:
        self._stream, self._left = stream, 3

    def readinto(self, memory: memoryview) -> int:
        if not self._left:
            raise ReadTimeoutError(endpoint_url="somewhere", error="so it is")
        self._left -= 1
        moved: int = self._stream.readinto(memory)
        return moved

    def close(self) -> None:
        self._stream.close()


@pytest.fixture
def line(reader: S3Reader, monkeypatch: pytest.MonkeyPatch) -> Line:
    return Line(reader, monkeypatch)


def is_right(reader: S3Reader, wanted: Wanted) -> bool:
    return bool((np.asarray(reader.read(wanted).tensors["images"]) == 7).all())


def test_a_large_batch_comes_in_parts(reader: S3Reader, wanted: Wanted, line: Line) -> None:
    assert is_right(reader, wanted)
    starts = range(0, wanted.nbytes, PART)
    parts = [f"bytes={at}-{min(at + PART, wanted.nbytes) - 1}" for at in starts]
    assert sorted(line.ranges) == sorted(parts)
    assert len(parts) == 4


def test_a_part_that_broke_off_goes_on_where_it_stopped(
    reader: S3Reader, wanted: Wanted, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_module, "PART_BYTES", 1 << 30)
    line.breaks = 2
    assert is_right(reader, wanted)
    ends = [f"bytes={at}-{wanted.nbytes - 1}" for at in (0, 3 * 4096, 6 * 4096)]
    assert line.ranges == ends


def test_a_part_that_breaks_off_again_and_again_is_said(
    reader: S3Reader, wanted: Wanted, line: Line
) -> None:
    line.breaks = 1000
    with pytest.raises(Unavailable, match=f"{wanted.location} stopped coming at byte"):
        reader.read(wanted)
    assert len(line.ranges) <= 4 * 4
    line.breaks = 0
    assert is_right(reader, wanted)


def test_what_was_consumed_is_deleted_and_a_failure_logged(
    reader: S3Reader,
    wanted: Wanted,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    loaded = reader.read(wanted)
    loaded.give_back()
    with pytest.raises(MissingBatch, match=f"{wanted.location} is gone"):
        reader.read(wanted)
    caplog.set_level(logging.WARNING)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(reader, "_client", S3Reader(Buffers())._client)
    loaded.give_back()
    assert f"{wanted.location} stays until its run ends" in caplog.text
    assert SECRET not in caplog.text


def test_a_bucket_that_is_gone_is_not_a_missing_batch(reader: S3Reader, wanted: Wanted) -> None:
    with pytest.raises(Unavailable, match="NoSuchBucket") as caught:
        reader.read(replace(wanted, location="s3://no-such-bucket/x/y"))
    assert not isinstance(caught.value, DamagedBatch)


def test_wrong_credentials_are_not_a_missing_batch(
    wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret-of-some-length")
    reader = S3Reader(Buffers())
    with pytest.raises(Unavailable, match=f"{wanted.location} answers SignatureDoesNotMatch"):
        reader.read(wanted)
    reader.close()


def test_an_answer_that_is_longer_than_asked_for_is_not_read(
    reader: S3Reader, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = reader._client.get_object

    def ignorant(**where: Any) -> Any:
        del where["Range"]
        return get(**where)

    monkeypatch.setattr(reader._client, "get_object", ignorant)
    with pytest.raises(DamagedBatch, match=f"came with {wanted.nbytes} bytes"):
        reader.read(wanted)


def test_memory_is_used_again(reader: S3Reader, bucket: StoreAddress) -> None:
    stored = write(S3Store(bucket, StoreOptions()), batch_id(samples=32), side=128)
    wanted = Wanted(batch_id(samples=32), stored.checksum, stored.nbytes, stored.location)
    seen = set()
    for _ in range(3):
        images = np.asarray(reader.read(wanted).tensors["images"])
        seen.add(images.ctypes.data)
        del images
    assert len(seen) == 1


def test_without_its_package_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setitem(sys.modules, "boto3.session", None)
    with pytest.raises(Unavailable, match=r"pip install 'ddlp\[s3\]'"):
        S3Reader(Buffers())
