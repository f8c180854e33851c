"""The doctor: answers whatever is missing, and keeps secrets."""

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddlp.cli import doctor
from ddlp.cli.doctor import examine
from ddlp.core.filesystem import Filesystem
from ddlp.core.image import engine_name
from ddlp.core.settings import Settings


def test_a_store_that_is_not_there_yet_is_no_trouble(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path,
        cpu_store=str(tmp_path / "not" / "there" / "yet"),
        url="http://127.0.0.1:1",
        redis_url="redis://:secret@127.0.0.1:1/0",
        database_url="postgresql://me:secret@127.0.0.1:1/ddlp",
    )
    seen = examine(settings)
    assert seen["cpu store"].startswith(f"{tmp_path}/not/there/yet on ")
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


def test_each_package_that_is_missing_has_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    seen = examine(Settings(home=tmp_path, url="http://127.0.0.1:1"))
    absent = {name: said for name, said in seen.items() if said.startswith("not installed; ")}
    assert {"torch", "celery", "boto3", "lz4"} <= set(absent)
    assert all("install" in said.removeprefix("not installed; ") for said in absent.values())


def test_gds_that_cannot_be_had_is_explained(tmp_path: Path) -> None:
    said = examine(Settings(home=tmp_path, url="http://127.0.0.1:1"))["gds"]
    assert said.startswith(("no: ", "ready: "))
    if said.startswith("no: "):
        assert "Until then batches go through the host's memory" in said


def test_a_tmpfs_that_is_small_is_noticed_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = shutil.disk_usage(tmp_path)._replace(total=64 << 20, free=60 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: small)
    monkeypatch.setattr(doctor, "filesystem_at", lambda _: Filesystem("tmpfs", Path("/dev/shm")))
    said = examine(Settings(home=tmp_path, url="http://127.0.0.1:1"))["cpu store"]
    assert "--shm-size=2g" in said


def test_the_doctor_answers_where_there_is_no_pytorch(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["torch"] = None
from pathlib import Path
from ddlp.cli.doctor import examine
from ddlp.core.settings import Settings
print(examine(Settings(home=Path({str(tmp_path)!r}), url="http://127.0.0.1:1"))["gds"])
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.startswith("not without PyTorch"), said.stderr
