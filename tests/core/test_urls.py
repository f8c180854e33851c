"""What is shown of an address never holds its secret."""

import pytest

from ddlp.core.urls import without_password


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
