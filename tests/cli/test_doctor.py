"""The doctor: answers whatever is missing, and keeps secrets."""

from pathlib import Path

import pytest

from ddlp.cli.doctor import examine, without_password
from ddlp.core.settings import Settings


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


def test_a_store_that_is_not_there_yet_is_no_trouble(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path,
        cpu_store=tmp_path / "not" / "there" / "yet",
        url="http://127.0.0.1:1",
        redis_url="redis://:secret@127.0.0.1:1/0",
        database_url="postgresql://me:secret@127.0.0.1:1/ddlp",
    )
    seen = examine(settings)
    assert seen["cpu store"].startswith(f"{tmp_path}/not/there/yet, ")
    assert "secret" not in str(seen)
