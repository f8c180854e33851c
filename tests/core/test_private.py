"""What DDLP makes is closed to other users; what somebody shared on purpose stays open."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlp.core.private import close_to_others, make_home, make_private_file, make_private_folder


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """The usual umask lets everybody read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_new_home_is_private(tmp_path: Path) -> None:
    make_home(tmp_path / "a" / "home")
    assert mode(tmp_path / "a" / "home") == 0o700


@pytest.mark.parametrize("content", ["lock", "ddlp.db", "index-copies"])
def test_an_existing_home_is_closed(tmp_path: Path, content: str) -> None:
    home = tmp_path / "home"
    home.mkdir(0o755)
    (home / content).touch()
    make_home(home)
    assert mode(home) == 0o700


def test_a_folder_with_other_things_in_it_is_left(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(0o755)
    (home / "letters").touch()
    make_home(home)
    assert mode(home) == 0o755


def test_files_are_made_and_closed(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("kept")
    for name in ("new", "old"):
        make_private_file(tmp_path / name)
        assert mode(tmp_path / name) == 0o600
    assert (tmp_path / "old").read_text() == "kept"
    make_private_folder(tmp_path / "folder")
    assert mode(tmp_path / "folder") == 0o700


def test_a_place_of_all_is_left(tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    close_to_others(shared)
    assert mode(shared) == 0o1777
