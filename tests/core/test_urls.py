"""What is shown of an address never holds its secret, and none is taken for a path."""

from pathlib import Path

import pytest

from ddlp.core.errors import InvalidInput
from ddlp.core.urls import refuse_address, without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://:secret@host:6379/0", "redis://:***@host:6379/0"),
        ("rediss://me:se/cr#et@host/0", "rediss://me:***@host/0"),
        ("unix:///run/redis.sock?db=1&password=secret", "unix:///run/redis.sock?db=1&password=***"),
        ("postgresql+psycopg://me:se@cret@host/db", "postgresql+psycopg://me:***@host/db"),
        ("postgresql://h/db?password=secret&user=me", "postgresql://h/db?password=***&user=me"),
        ("sqlite:////home/a:b@c/ddlp.db", "sqlite:////home/a:b@c/ddlp.db"),
        ("embedded: /usr/bin/valkey-server", "embedded: /usr/bin/valkey-server"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


ADDRESSES = (
    "s3://bucket/x",
    "gs://bucket/x",
    "az://container/x",
    "abfss://c@account.dfs.core.windows.net/x",
    "http://host/x.tar",
    "HTTPS://host/x.tar",
    "hdfs://namenode:8020/x",
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_refused_by_its_own_name(address: str) -> None:
    for given in (address, Path(address)):  # a path has lost a slash
        with pytest.raises(InvalidInput) as refused:
            refuse_address(given)
        assert str(refused.value).startswith(f"{address} is an address, not a folder: ")
        assert "mount it or copy it" in str(refused.value)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(InvalidInput, match=r"https://me:\*\*\*@host/x is an address") as refused:
        refuse_address("https://me:secret@host/x")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("given", ["file:///data/pets", Path("file:///data/pets")])
def test_the_address_of_a_file_is_told_to_be_a_path(given: str | Path) -> None:
    with pytest.raises(InvalidInput, match=r"file:///data/pets is an address.*; leave out file://"):
        refuse_address(given)


@pytest.mark.parametrize(
    "path", ["/data/s3://bucket", "/data", "data", "", ".", "~/pets", "a:b", "1:/x"]
)
def test_a_path_is_none(path: str) -> None:
    refuse_address(path)
    refuse_address(Path(path))
    refuse_address(f"./{path}")


def test_a_folder_whose_name_ends_in_a_colon_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput):
        refuse_address(Path("odd:/pets"))
    (tmp_path / "odd:").mkdir()
    refuse_address(Path("odd:/pets"))
