"""A store in a bucket, against a real S3 server: whole or absent, bounded, clear in its errors."""

import socket
import sys
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ddlp.core.batchfile import batch_tensors, parse_head, unseal
from ddlp.core.codecs import Codec
from ddlp.core.errors import InvalidInput, NoRoom, Unavailable
from ddlp.core.store import StoreAddress, StoreOptions, batch_name, open_store
from ddlp.core.store import s3 as s3_module
from ddlp.core.store.s3 import MemoryFile, S3Store
from tests.core.store.making import (
    OTHER_RUN,
    RUN,
    Arrays,
    batch_id,
    pictures,
    write,
)
from tests.core.store.s3_server import KEY, SECRET, use_server


@pytest.fixture
def store(bucket: StoreAddress) -> S3Store:
    return S3Store(bucket, StoreOptions())


def keys(client: Any, address: StoreAddress) -> list[str]:
    found = client.list_objects_v2(Bucket=address.bucket).get("Contents", [])
    return [entry["Key"] for entry in found]


def body(client: Any, address: StoreAddress, name: str) -> bytes:
    answer = client.get_object(Bucket=address.bucket, Key=f"{address.path}/{name}")
    found: bytes = answer["Body"].read()
    return found


def test_an_address_opens_it(bucket: StoreAddress) -> None:
    assert isinstance(open_store(bucket), S3Store)


@pytest.mark.parametrize("codec", list(Codec))
def test_what_was_written_lies_there_whole(
    bucket: StoreAddress, s3_client: Any, codec: Codec
) -> None:
    store = S3Store(bucket, StoreOptions(codec=codec))
    stored = write(store, batch_id(index=12, token=345), fill=pictures(1))
    name = batch_name(RUN, 0, 12, 345)
    raw = body(s3_client, bucket, name)
    head, arrays = unseal(memoryview(raw))
    assert stored.location == f"{bucket.url}/{name}"
    assert (stored.nbytes, stored.checksum) == (len(raw), head.checksum)
    assert head.batch == batch_id(index=12, token=345)
    assert arrays["images"].shape == (4, 32, 32, 3)
    assert any(entry.codec is not Codec.OFF for entry in head.tensors) == (codec is not Codec.OFF)


def test_a_batch_means_the_same_compressed_or_not(bucket: StoreAddress) -> None:
    plain = write(S3Store(bucket, StoreOptions()), batch_id(), fill=pictures(1))
    packed = write(S3Store(bucket, StoreOptions(codec=Codec.ZLIB)), batch_id(), fill=pictures(1))
    assert packed.checksum == plain.checksum
    assert packed.nbytes < plain.nbytes


def test_a_bucket_without_a_prefix_will_do(bucket: StoreAddress, s3_client: Any) -> None:
    store = S3Store(StoreAddress.parse(f"s3://{bucket.bucket}"), StoreOptions())
    stored = write(store, batch_id())
    assert stored.location == f"s3://{bucket.bucket}/{batch_name(RUN, 0, 0, 1)}"
    assert keys(s3_client, bucket) == [batch_name(RUN, 0, 0, 1)]
    assert set(store.runs()) == {RUN}


def test_a_batch_may_hold_fewer_samples_than_were_planned(
    store: S3Store, bucket: StoreAddress, s3_client: Any
) -> None:
    def fill(arrays: Arrays) -> int:
        arrays["images"][...] = 3
        return 2

    stored = store.write(batch_id(), batch_tensors(4, (32, 32, 3), "uint8"), fill)
    raw = body(s3_client, bucket, batch_name(RUN, 0, 0, 1))
    assert len(raw) == stored.nbytes
    assert parse_head(memoryview(raw)).batch.samples == 2


def test_the_memory_of_a_batch_is_used_again_and_let_go(store: S3Store) -> None:
    seen: list[int] = []

    def fill(arrays: Arrays) -> int:
        seen.append(arrays["images"].ctypes.data)
        return 4

    for token in (1, 2):
        write(store, batch_id(token=token), fill=fill)
    assert seen[0] == seen[1]
    store.relax()
    write(store, batch_id(token=3), fill=fill)


def test_a_batch_that_fails_half_way_leaves_nothing(
    store: S3Store, bucket: StoreAddress, s3_client: Any
) -> None:
    def fill(arrays: Arrays) -> int:
        raise MemoryError

    with pytest.raises(MemoryError):
        write(store, batch_id(), fill=fill)
    assert keys(s3_client, bucket) == []


def test_what_counts_no_more_is_discarded(
    store: S3Store, bucket: StoreAddress, s3_client: Any
) -> None:
    write(store, batch_id(token=1))
    write(store, batch_id(token=2))
    store.discard(RUN, 0, 0, 1)
    store.discard(RUN, 0, 0, 1)
    assert keys(s3_client, bucket) == [f"{bucket.path}/{batch_name(RUN, 0, 0, 2)}"]


def test_forgetting_a_run_leaves_the_others_and_what_is_not_ours(
    store: S3Store, bucket: StoreAddress, s3_client: Any
) -> None:
    s3_client.put_object(Bucket=bucket.bucket, Key=f"{bucket.path}/notes", Body=b"mine")
    s3_client.put_object(Bucket=bucket.bucket, Key=f"{bucket.path}/ddlp-run-x/1", Body=b"mine")
    for index in range(3):
        write(store, batch_id(index=index))
    write(store, batch_id(run=OTHER_RUN))
    assert set(store.runs()) == {RUN, OTHER_RUN}
    store.remove_run(RUN)
    store.remove_run(RUN)
    assert set(store.runs()) == {OTHER_RUN}
    assert len(keys(s3_client, bucket)) == 3


def test_it_says_for_how_long_nothing_was_written(store: S3Store) -> None:
    write(store, batch_id())
    assert 0 <= store.runs()[RUN] < 60


def test_a_run_of_more_objects_than_one_listing_has_is_forgotten(
    store: S3Store, bucket: StoreAddress, s3_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(7):
        write(store, batch_id(index=index), side=2)
    paginate = s3_client.get_paginator("list_objects_v2").paginate

    class Pages:
        def paginate(self, **where: Any) -> Any:
            return paginate(**where, PaginationConfig={"PageSize": 3})

    monkeypatch.setattr(store._client, "get_paginator", lambda _: Pages())
    assert store.room().used_bytes == 7 * 4 * 4096
    store.remove_run(RUN)
    assert keys(s3_client, bucket) == []


def test_it_says_how_full_it_is(bucket: StoreAddress) -> None:
    unbounded = S3Store(bucket, StoreOptions())
    stored = write(unbounded, batch_id())
    assert unbounded.room().used_bytes == stored.nbytes
    assert unbounded.room().free_bytes is None
    bounded = S3Store(bucket, StoreOptions(quota_bytes=3 * stored.nbytes))
    assert bounded.room().free_bytes == 2 * stored.nbytes


def test_runs_share_one_quota_and_find_room_when_batches_are_consumed(
    bucket: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbytes = write(S3Store(bucket, StoreOptions()), batch_id()).nbytes
    store = S3Store(bucket, StoreOptions(quota_bytes=2 * nbytes))
    write(store, batch_id(run=OTHER_RUN))
    with pytest.raises(NoRoom, match=r"used up its quota of .*DDLP_STORE_QUOTA_BYTES"):
        write(store, batch_id(index=1, run=OTHER_RUN))
    S3Store(bucket, StoreOptions()).discard(RUN, 0, 0, 1)  # as a reader does it
    monkeypatch.setattr(s3_module, "_LISTED_FOR_S", 0.0)
    write(store, batch_id(index=1, run=OTHER_RUN))


def test_a_full_store_is_found_before_the_work_is_done(bucket: StoreAddress) -> None:
    def fill(arrays: Arrays) -> int:
        raise AssertionError("it was made for nothing")

    store = S3Store(bucket, StoreOptions(quota_bytes=4096))
    with pytest.raises(NoRoom):
        write(store, batch_id(), fill=fill)


class Answering(ThreadingHTTPServer):
    """A server that answers everything in one way."""

    daemon_threads = True

    def __init__(self, status: int, code: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status, self.code, self.asked = status, code, 0


class _Answer(BaseHTTPRequestHandler):
    server: Answering

    def parse_request(self) -> bool:
        """Whatever is asked for."""
        understood = super().parse_request()
        self.command = "ANY"
        return understood

    def do_ANY(self) -> None:
        self.server.asked += 1
        raw = f"<Error><Code>{self.server.code}</Code><Message>so it is</Message></Error>".encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def answering(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Answering]:
    with Answering(*request.param) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        use_server(monkeypatch, f"http://127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "answering",
    [
        (403, "QuotaExceeded"),
        (400, "XMinioAdminBucketQuotaExceeded"),
        (507, "XMinioStorageFull"),
        (507, "Whatever"),
    ],
    indirect=True,
)
def test_a_store_that_says_that_it_is_full_is_full(answering: Answering) -> None:
    store = S3Store(StoreAddress.parse("s3://bucket/here"), StoreOptions())
    with pytest.raises(NoRoom, match=f"s3://bucket/here answers {answering.code}.*raise its quota"):
        write(store, batch_id())


@pytest.mark.parametrize(
    "answering", [(403, "AccessDenied"), (404, "NoSuchBucket"), (503, "SlowDown")], indirect=True
)
def test_what_a_store_refuses_is_said_and_no_more_often_asked_than_so(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    store = S3Store(StoreAddress.parse("s3://bucket/here"), StoreOptions())
    with pytest.raises(Unavailable, match=f"s3://bucket/here answers {answering.code}") as caught:
        write(store, batch_id())
    assert not isinstance(caught.value, NoRoom)
    assert 1 <= answering.asked <= 4


def test_a_bucket_that_is_not_there_is_named(bucket: StoreAddress) -> None:
    store = S3Store(StoreAddress.parse("s3://no-such-bucket/x"), StoreOptions())
    with pytest.raises(Unavailable, match="s3://no-such-bucket/x answers NoSuchBucket"):
        write(store, batch_id())
    with pytest.raises(Unavailable, match="s3://no-such-bucket/x"):
        store.room()


def test_a_store_that_is_not_there_is_named_without_its_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setattr("time.sleep", lambda _: None)
    use_server(monkeypatch, f"http://someone:{SECRET}@127.0.0.1:{port}")
    store = S3Store(StoreAddress.parse("s3://bucket/here"), StoreOptions())
    with pytest.raises(Unavailable, match="s3://bucket/here cannot be reached") as caught:
        write(store, batch_id())
    assert str(port) in str(caught.value)
    assert SECRET not in str(caught.value)
    assert KEY not in str(caught.value)


def test_missing_and_wrong_credentials_are_said(
    s3_url: str, bucket: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET + "-not")
    with pytest.raises(Unavailable, match="SignatureDoesNotMatch") as caught:
        write(S3Store(bucket, StoreOptions()), batch_id())
    assert SECRET not in str(caught.value)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(Unavailable, match=r"credentials.*AWS_"):
        write(S3Store(bucket, StoreOptions()), batch_id())


def test_an_endpoint_that_is_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    use_server(monkeypatch, "somewhere")
    with pytest.raises(InvalidInput, match=r"AWS_ENDPOINT_URL.*somewhere"):
        S3Store(StoreAddress.parse("s3://bucket"), StoreOptions())


def test_without_its_package_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setitem(sys.modules, "boto3.session", None)
    with pytest.raises(Unavailable, match=r"pip install 'ddlp\[s3\]'"):
        open_store(StoreAddress.parse("s3://bucket"))


def test_memory_reads_as_a_file_does() -> None:
    file = MemoryFile(memoryview(b"abcdefgh"))
    assert (file.readable(), file.seekable()) == (True, True)
    assert file.read(3) == b"abc"
    assert file.tell() == 3
    assert file.read() == b"defgh"
    assert file.read(1) == b""
    assert file.seek(-2, 2) == 6
    assert file.read(9) == b"gh"
    assert file.seek(0) == 0
    assert file.seek(1, 1) == 1
    assert file.read(1) == b"b"


def test_uuids_of_runs_are_read_from_keys_only_where_they_are_ours(
    store: S3Store, bucket: StoreAddress, s3_client: Any
) -> None:
    for name in ("ddlp-run-", f"ddlp-run-{uuid.UUID(int=3).hex}", "ddlp-runs"):
        s3_client.put_object(Bucket=bucket.bucket, Key=f"{bucket.path}/{name}/1", Body=b"")
    assert store.runs() == {}
