"""Places while somebody types one: named where they are allowed, never looked at where not."""

import os
from pathlib import Path

import pytest

from ddlp.core.errors import InvalidInput, NotAllowed
from ddlp.core.settings import Settings
from ddlp.server import datasets, pack_folders, places
from ddlp.server.roots import AllowedFolders
from tests.conftest import make_images


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An allowed folder with a dataset, a file, something hidden, and links out of it."""
    found = tmp_path / "allowed"
    make_images(found / "fruit", 6)
    (found / "flat").mkdir()
    (found / "flat" / "notes.txt").write_text("no image")
    (found / "list.csv").write_text("path,label\n")
    (found / "list.txt").write_text("")
    (found / ".hidden").mkdir()
    secret = tmp_path / "secret"
    (secret / "inside").mkdir(parents=True)
    (found / "way-out").symlink_to(secret)
    return found


@pytest.fixture
def folders(tmp_path: Path, root: Path) -> AllowedFolders:
    return AllowedFolders((root,), tmp_path / "drawn")


def test_what_was_allowed_is_offered_first(folders: AllowedFolders, root: Path) -> None:
    for prefix in ("", "/", str(root)[:4]):
        assert places.look(folders, prefix).places == [str(root)]


def test_folders_and_files_that_may_hold_a_dataset_are_offered(
    folders: AllowedFolders, root: Path
) -> None:
    found = places.look(folders, f"{root}/")
    assert found.places == [f"{root}/flat/", f"{root}/fruit/", f"{root}/list.csv"]
    assert not found.more
    assert places.look(folders, f"{root}/fr").places == [f"{root}/fruit/"]


def test_what_lies_at_a_place_is_named(folders: AllowedFolders, root: Path) -> None:
    fruit = places.look(folders, f"{root}/fruit")
    assert (fruit.kind, fruit.problem) == ("folder", None)
    flat = places.look(folders, f"{root}/flat")
    assert flat.kind is None
    assert flat.problem is not None
    assert "no subfolders" in flat.problem
    missing = places.look(folders, f"{root}/nothing")
    assert missing.kind is None
    assert missing.problem is not None


@pytest.mark.parametrize("tail", ["/way-out", "/way-out/", "/way-out/in", "/../secret/", "/.hid"])
def test_nothing_outside_and_nothing_hidden_is_shown(
    folders: AllowedFolders, root: Path, tail: str
) -> None:
    found = places.look(folders, f"{root}{tail}")
    assert found.places == []
    assert "inside" not in repr(found)
    # Where a link leads is told nobody who may not look there.
    assert found.problem is None or f"{root.parent}/secret" not in found.problem.split(" ")[1:]


def test_a_place_that_is_not_allowed_names_the_cure(folders: AllowedFolders, root: Path) -> None:
    assert places.look(folders, "/etc").problem == (
        f"/etc is not below an allowed folder ({root}); allow one with: ddlp roots add FOLDER"
    )
    nothing = AllowedFolders((), folders.drawn)
    assert "(there is none yet)" in (places.look(nothing, "/etc").problem or "")


def test_an_address_is_not_taken_for_a_path(folders: AllowedFolders) -> None:
    found = places.look(folders, "s3://bucket/photos")
    assert (found.kind, found.places) == (None, [])
    assert (found.problem or "").startswith("s3://bucket/photos is an address, not a folder")


@pytest.mark.parametrize("text", ["/etc", "/etc/passwd", "fruit", "\0", "/" + "a" * 5000])
def test_a_place_that_cannot_be_used_says_why(folders: AllowedFolders, text: str) -> None:
    found = places.look(folders, text)
    assert (found.kind, found.places) == (None, [])
    assert found.problem


def test_a_large_folder_is_not_read_whole(
    folders: AllowedFolders, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_MOST_SHOWN", 3)
    for number in range(9):
        (root / f"many-{number}").mkdir()
    found = places.look(folders, f"{root}/many")
    assert len(found.places) == 3
    assert found.more
    monkeypatch.setattr(places, "_MOST_READ", 4)
    assert len(places.look(folders, f"{root}/").places) <= 4


def test_a_folder_that_may_not_be_read_is_no_crash(folders: AllowedFolders, root: Path) -> None:
    (root / "fruit").chmod(0)
    try:
        found = places.look(folders, f"{root}/fruit")
    finally:
        (root / "fruit").chmod(0o755)
    if os.geteuid():  # whoever is root may read everything
        assert found.problem is not None
        assert "cannot be read" in found.problem


def test_who_has_a_home_on_the_server_is_not_told(folders: AllowedFolders) -> None:
    told = {
        (places.look(folders, f"~{user}/x").problem or "").replace(user, "USER")
        for user in ("root", "daemon", "nobody-of-this-name")
    }
    assert len(told) == 1
    assert "full path" in told.pop()


def test_registering_tells_nothing_of_what_lies_outside(
    folders: AllowedFolders, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "secret"
    (outside / "circle").symlink_to(outside / "circle")
    (outside / "to-etc").symlink_to("/etc")
    (root / "to-circle").symlink_to(outside / "circle")
    (root / "to-nothing").symlink_to(outside / "nothing")
    asked = [
        *(outside / name for name in ("inside", "nothing", "circle", "to-etc", "circle/x")),
        *(root / name for name in ("way-out", "way-out/inside", "way-out/nothing", "to-nothing")),
    ]
    for path in asked:
        with pytest.raises(NotAllowed) as refusal:
            datasets.allowed_path(folders, str(path))
        assert str(refusal.value) == str(folders.refusal(str(path)))
    with pytest.raises(InvalidInput):
        datasets.allowed_path(folders, "~root/x")
    with pytest.raises(NotAllowed) as refusal:
        pack_folders.allowed(Settings(home=tmp_path / "home"), folders, str(root / "way-out"))
    assert "secret" not in str(refusal.value)
