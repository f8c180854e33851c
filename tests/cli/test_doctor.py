"""The doctor: answers whatever is missing, and keeps secrets."""

from pathlib import Path

from ddlp.cli.doctor import examine
from ddlp.core.settings import Settings


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
