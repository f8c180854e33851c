"""The doctor: answers whatever is missing, and keeps secrets."""

from pathlib import Path

import pytest

from ddlp.cli import doctor
from ddlp.cli.doctor import examine
from ddlp.core.image import engine_name
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


def test_the_engine_is_named_and_the_slower_one_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path, url="http://127.0.0.1:1")
    monkeypatch.setattr(doctor, "engine_reason", lambda: None)
    assert doctor.examine(settings)["engine"] == engine_name()
    monkeypatch.setattr(doctor, "engine_reason", lambda: "there is no compiler")
    said = doctor.examine(settings)["engine"]
    assert "slower (there is no compiler)" in said
    assert "install a C compiler" in said
    asked = settings.model_copy(update={"engine": "reference"})
    assert doctor.examine(asked)["engine"].endswith("unset DDLP_ENGINE")
