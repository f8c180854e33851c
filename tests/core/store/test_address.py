"""Where a store is: what people write is understood or refused, and comes back the same."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.errors import InvalidInput
from ddlp.core.store import StoreAddress, batch_name, path_of
from ddlp.core.store.address import FILE, S3
from tests.core.store.making import RUN


@pytest.mark.parametrize(
    ("text", "path", "url"),
    [
        ("/mnt/store", "/mnt/store", "file:///mnt/store"),
        ("/mnt/a store #1?", "/mnt/a store #1?", "file:///mnt/a%20store%20%231%3F"),
        ("file:///mnt/store", "/mnt/store", "file:///mnt/store"),
        ("file://localhost/mnt/store", "/mnt/store", "file:///mnt/store"),
        ("file:///mnt/a%20store", "/mnt/a store", "file:///mnt/a%20store"),
        ("file:///mnt/%C3%A4", "/mnt/ä", "file:///mnt/%C3%A4"),
        ("/mnt/100%", "/mnt/100%", "file:///mnt/100%25"),
    ],
)
def test_a_folder_is_understood(text: str, path: str, url: str) -> None:
    address = StoreAddress.parse(text)
    assert address.folder == Path(path)
    assert address.url == str(address) == url
    assert StoreAddress.parse(url) == address


@pytest.mark.parametrize(
    ("text", "bucket", "prefix", "url"),
    [
        ("s3://bucket", "bucket", "", "s3://bucket"),
        ("s3://bucket/", "bucket", "", "s3://bucket"),
        ("s3://bucket/some/where", "bucket", "some/where", "s3://bucket/some/where"),
        ("s3://bucket/some//where/", "bucket", "some/where", "s3://bucket/some/where"),
        ("s3://my.bucket-1/a%20b", "my.bucket-1", "a b", "s3://my.bucket-1/a%20b"),
    ],
)
def test_a_bucket_is_understood(text: str, bucket: str, prefix: str, url: str) -> None:
    address = StoreAddress.parse(text)
    assert (address.scheme, address.bucket, address.path) == (S3, bucket, Path(prefix))
    assert address.folder is None
    assert address.url == url
    assert StoreAddress.parse(url) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "store",
        "./store",
        "file:store",
        "file:/store",
        "file://",
        "file://elsewhere/store",
        "file:///store?x=1",
        "file:///store#x",
        "file:///store%00",
        "/store\0",
        "s3:",
        "s3://",
        "s3:///prefix",
        "s3://b?x",
        "s3://host:90/x",
        "http://host:1/x",
        "ftp://host/x",
        "http://[::1",
    ],
)
def test_what_is_no_address_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(InvalidInput, match="write a folder's whole path") as caught:
        StoreAddress.parse(text)
    assert repr(text) in str(caught.value)


def test_secrets_in_an_address_are_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInput) as caught:
        StoreAddress.parse("s3://key:secret@bucket/x")
    assert "secret" not in str(caught.value)
    assert "bucket/x" in str(caught.value)


@given(name=st.binary(min_size=1, max_size=40).filter(lambda raw: not set(raw) & {0, ord("/")}))
def test_any_folder_has_an_address(name: bytes) -> None:
    folder = Path("/mnt") / os.fsdecode(name)
    address = StoreAddress.given(folder)
    assert address.url.isascii()
    assert StoreAddress.parse(address.url) == address
    batch = batch_name(RUN, 0, 1, 2)
    assert path_of(f"{address.url}/{batch}") == folder / batch


def test_what_is_given_here_may_depend_on_where_we_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert StoreAddress.given("store") == StoreAddress(FILE, tmp_path / "store")
    assert StoreAddress.given(Path("a:b")) == StoreAddress(FILE, tmp_path / "a:b")
    assert StoreAddress.given("s3://bucket/x") == StoreAddress(S3, Path("x"), "bucket")


def test_only_files_have_a_path() -> None:
    assert path_of("file:///mnt/a%20b") == Path("/mnt/a b")
    with pytest.raises(InvalidInput, match="s3://bucket/x is not a file"):
        path_of("s3://bucket/x")
    with pytest.raises(InvalidInput, match="http://host/x"):
        path_of("http://host/x")
