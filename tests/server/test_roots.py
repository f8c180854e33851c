"""Allowed folders: of the settings and of SQL, changed while a server runs, checked at start."""

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import select

from ddlp.core.client import Client
from ddlp.core.errors import Conflict, InvalidInput, NotAllowed, NotFound
from ddlp.core.messages import DatasetCreate, PackCreate
from ddlp.core.messages.roots import RootAdded, RootCreate, RootInfo, RootRemoved
from ddlp.core.settings import Settings
from ddlp.core.types import RootState, Scope
from ddlp.server import audit, datasets, packings, places, roots
from ddlp.server.identity import Identity, acting_as
from ddlp.server.models import DatasetRoot
from ddlp.server.roots import AllowedFolders, check_settings
from ddlp.server.scanner import Scanner
from tests.conftest import Locked, UpProcess, make_images, wait_until
from tests.server.conftest import Plane


def add(plane: Plane, path: Path | str, *, force: bool = False) -> RootAdded:
    with plane.database.session() as session:
        return roots.add(session, plane.settings, RootCreate(path=str(path), force=force))


def remove(plane: Plane, path: Path | str) -> RootRemoved:
    with plane.database.session() as session:
        return roots.remove(session, plane.settings, str(path))


def listed(plane: Plane) -> list[RootInfo]:
    with plane.database.session() as session:
        return roots.list_all(session, plane.settings)


def allowed(plane: Plane) -> AllowedFolders:
    with plane.database.session() as session:
        return roots.allowed(session, plane.settings)


def register(plane: Plane, path: Path, name: str) -> None:
    with plane.database.session() as session:
        datasets.add(session, plane.settings, DatasetCreate(uri=str(path), name=name))


@pytest.fixture
def more(tmp_path: Path) -> Path:
    """A folder of images that the settings do not allow."""
    make_images(tmp_path / "more" / "pets", 6)
    return tmp_path / "more"


def test_a_folder_that_is_added_counts_at_once_everywhere(plane: Plane, more: Path) -> None:
    with pytest.raises(NotAllowed, match="with: ddlp roots add FOLDER"):
        register(plane, more / "pets", "pets")
    assert add(plane, more).note == f"Datasets below {more} can be registered now."
    register(plane, more / "pets", "pets")
    assert places.look(allowed(plane), f"{more}/p").places == [f"{more}/pets/"]
    plane.add_dataset(plane.settings.roots[0], "fruit")
    with plane.database.session() as session:
        into = PackCreate(into=str(more / "shards"))
        assert packings.draft(session, plane.settings, "fruit", into).uri == str(more / "shards")


def test_what_was_added_is_kept_in_the_database(either_plane: Plane, more: Path) -> None:
    plane = either_plane
    with acting_as(Identity("ann", Scope.ADMIN)):
        add(plane, more)
    plane.restart()
    assert allowed(plane).roots == (*plane.settings.roots, more)
    *given, added = listed(plane)
    assert [(info.path, info.from_settings, info.added_at) for info in given] == [
        (str(root), True, None) for root in plane.settings.roots
    ]
    assert (added.path, added.from_settings, added.added_by) == (str(more), False, "ann")
    assert added.added_at is not None
    with plane.database.session() as session:
        [event] = audit.page(session, action="root")
    assert (event.actor, event.subject) == ("ann", str(more))
    assert event.words == f"allowed for datasets: {more}"


def test_adding_twice_is_harmless_and_written_down_once(either_plane: Plane, more: Path) -> None:
    plane = either_plane
    first = add(plane, more)
    again = add(plane, f"{more}/../{more.name}/")
    assert again.note == f"{more} is allowed already."
    assert again.added_at == first.added_at
    with plane.database.session() as session:
        assert len(audit.page(session, action="root.add")) == 1


def test_links_are_resolved_when_a_folder_is_added(plane: Plane, more: Path) -> None:
    link = more.parent / "link"
    link.symlink_to(more)
    assert add(plane, link).path == str(more)
    link.unlink()
    link.symlink_to("/etc")
    assert not allowed(plane).hold(Path("/etc/pets"))


def test_a_folder_in_an_allowed_one_says_so(plane: Plane, more: Path) -> None:
    add(plane, more)
    assert (
        add(plane, more / "pets").note == f"{more}/pets lies in {more}, which is allowed already."
    )
    removed = remove(plane, more)
    assert removed.note == f"{more} was removed. No dataset is affected."
    assert allowed(plane).hold(more / "pets" / "apple")
    assert not allowed(plane).hold(more / "other")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("more/nothing", "more/nothing does not exist; create or mount it first"),
        ("more/pets/apple/0000.jpg", "0000.jpg is not a folder"),
        ("/", "/ would allow every file .*in /etc; .*ddlp roots add / --force"),
        ("/proc/..", "/ would allow every file"),
    ],
)
def test_what_cannot_sensibly_be_allowed_is_refused(
    plane: Plane, more: Path, place: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        add(plane, more.parent / place)
    assert allowed(plane).roots == tuple(plane.settings.roots)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("more", "'more' is not a full path; begin with /"),
        ("s3://bucket/x", "^s3://bucket/x is an address, not a folder"),
        ("/a\0b", "is not a path"),
        ("~nobody-of-this-name/x", "is not a full path"),
    ],
)
def test_what_is_no_path_is_refused(plane: Plane, place: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        add(plane, place)


def test_a_folder_that_cannot_be_read_is_refused_and_listed_as_such(
    plane: Plane, more: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(plane, more)

    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(roots.os, "scandir", refuse)  # root may read everything
    assert listed(plane)[-1].state is RootState.UNREADABLE
    with pytest.raises(InvalidInput, match=r"pets cannot be read \(Permission denied\)"):
        add(plane, more / "pets")
    with pytest.raises(InvalidInput, match=r"cannot be read.*DDLP_DATASET_ROOTS"):
        check_settings(Settings(dataset_roots=[more]))


def test_the_whole_filesystem_is_allowed_only_to_who_insists(plane: Plane) -> None:
    add(plane, "/", force=True)
    assert allowed(plane).hold(Path("/etc"))
    remove(plane, "/")
    assert not allowed(plane).hold(Path("/etc"))


@pytest.mark.parametrize("length", [3000, 150])
def test_long_paths_are_kept_or_refused_by_every_database(
    either_plane: Plane, more: Path, length: int
) -> None:
    folder = more
    while len(str(folder)) < length:
        folder /= "d" * min(200, length - len(str(folder)))
    folder.mkdir(parents=True)
    if length > 2048:
        with pytest.raises(InvalidInput, match="is longer than 2048 bytes"):
            add(either_plane, folder)
        return
    add(either_plane, folder)
    assert remove(either_plane, folder).removed == str(folder)


def test_a_folder_of_the_settings_is_not_removed(plane: Plane) -> None:
    given = plane.settings.roots[0]
    with pytest.raises(Conflict, match=f"restart the server without --allow {given} or without"):
        remove(plane, given)
    assert add(plane, given).note == (
        f"{given} is allowed by the settings already; it now stays allowed without them."
    )
    info = listed(plane)[0]
    assert (info.from_settings, info.added_at is not None) == (True, True)
    assert remove(plane, given).note == (
        f"{given} was removed, but it is still allowed by the settings."
    )
    assert allowed(plane).hold(given)


def test_what_was_not_added_cannot_be_removed(plane: Plane, more: Path) -> None:
    with pytest.raises(NotFound, match=f"{more} was not added; folders that were: none"):
        remove(plane, more)
    add(plane, more)
    with pytest.raises(NotFound, match=f"pets was not added; folders that were: {more}$"):
        remove(plane, more / "pets")


def test_datasets_below_a_folder_that_is_removed_stay_and_are_not_scanned_again(
    plane: Plane, more: Path
) -> None:
    add(plane, more)
    add(plane, more / "pets")
    plane.add_dataset(more / "pets", "pets")
    assert listed(plane)[-1].datasets == ["pets"]
    kept = remove(plane, more)
    assert (kept.datasets, kept.note) == ([], f"{more} was removed. No dataset is affected.")
    removed = remove(plane, more / "pets")
    assert removed.datasets == ["pets"]
    assert removed.note == (
        f"{more}/pets was removed. Datasets below it stay registered and can be trained on, but "
        "not scanned again: pets."
    )
    with plane.database.session() as session:
        assert datasets.find_ready(session, "pets").samples == 6
    with pytest.raises(NotAllowed):
        register(plane, more / "pets", "again")
    with plane.database.session() as session:
        assert audit.page(session, action="root.remove")[0].subject == f"{more}/pets"


def test_a_scan_that_has_not_begun_is_refused_once_its_folder_was_removed(
    plane: Plane, more: Path
) -> None:
    add(plane, more)
    register(plane, more / "pets", "pets")
    remove(plane, more)
    scanner = Scanner(plane.database, plane.settings)
    scanner.start()

    def outcome() -> tuple[str, str | None]:
        with plane.database.session() as session:
            row = datasets.find(session, "pets")
            return row.state, row.reason

    wait_until(lambda: outcome()[0] != "scanning")
    scanner.stop()
    state, reason = outcome()
    assert state == "failed"
    assert "is not below an allowed folder" in (reason or "")


def test_links_to_an_added_folder_are_followed_by_a_scan(plane: Plane, more: Path) -> None:
    place = plane.scratch / "linked"
    place.mkdir()
    (place / "pet").symlink_to(more / "pets" / "apple")
    add(plane, more)
    register(plane, place, "linked")
    scanner = Scanner(plane.database, plane.settings)
    scanner.start()

    def state() -> str:
        with plane.database.session() as session:
            return datasets.find(session, "linked").state

    wait_until(lambda: state() != "scanning")
    scanner.stop()
    assert state() == "ready"


def test_a_folder_that_has_vanished_is_listed_as_missing_and_can_be_removed(
    plane: Plane, more: Path
) -> None:
    add(plane, more)
    moved = more.rename(more.parent / "moved")
    assert listed(plane)[-1].state is RootState.MISSING
    with pytest.raises(InvalidInput, match="pets does not exist"):
        register(plane, more / "pets", "pets")
    more.symlink_to(moved)
    assert not allowed(plane).hold(moved / "pets"), "a link in its place leads nowhere"
    assert remove(plane, more).removed == str(more)
    with plane.database.session() as session:
        assert session.scalars(select(DatasetRoot)).all() == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{}/nothing", r"^{}/nothing does not exist; create or mount it first \(it comes from"),
        ("{}/file", "^{}/file is not a folder"),
        ("/", "^/ would allow every file"),
        ("s3://bucket/x", "^s3://bucket/x is an address, not a folder"),
    ],
)
def test_a_server_does_not_start_with_a_folder_that_cannot_be_used(
    tmp_path: Path, given: str, message: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match=message.format(tmp_path)):
        check_settings(Settings(dataset_roots=[tmp_path, Path(given.format(tmp_path))]))


def test_without_any_folder_a_server_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    check_settings(Settings())


def test_folders_are_managed_over_http(api: Client, up: UpProcess, tmp_path: Path) -> None:
    pets = make_images(tmp_path / "over http" / "pets", 6)
    folder = str(pets.parent)
    wish = {"uri": str(pets), "name": "pets-over-http"}
    with pytest.raises(NotAllowed, match="ddlp roots add FOLDER"):
        api.post("/datasets", wish)
    added = api.post("/roots", {"path": folder})
    assert (added["path"], added["from_settings"], added["state"]) == (folder, False, "available")
    api.post("/datasets", wish)
    wait_until(lambda: api.get("/datasets/pets-over-http")["state"] == "ready")
    [info] = [entry for entry in api.get("/roots") if entry["path"] == folder]
    assert info["datasets"] == ["pets-over-http"]
    assert f"{folder}/pets/" in api.get(f"/places?prefix={quote(folder)}/")["places"]
    removed = api.delete(f"/roots?path={quote(folder)}")
    assert removed["datasets"] == ["pets-over-http"]
    with pytest.raises(NotFound):
        api.delete(f"/roots?path={quote(folder)}")
    with pytest.raises(InvalidInput, match="path"):
        api.delete("/roots")
    with pytest.raises(InvalidInput, match=r"^s3://bucket/x is an address"):
        api.post("/datasets", {"uri": "s3://bucket/x", "name": "no"})
    with pytest.raises(InvalidInput, match=r"^s3://bucket/x is an address"):
        api.post("/datasets/fruit/pack", {"into": "s3://bucket/x"})
    api.delete("/datasets/pets-over-http")


def test_only_an_administrator_changes_them(locked: Locked, tmp_path: Path) -> None:
    path = os.fspath(tmp_path)
    for key in (locked.read, locked.work):
        with locked.up.client(key) as client:
            assert client.get("/roots")[0]["from_settings"]
            with pytest.raises(NotAllowed, match="this needs admin"):
                client.post("/roots", {"path": path})
            with pytest.raises(NotAllowed, match="this needs admin"):
                client.delete(f"/roots?path={path}")
    with locked.up.client(locked.admin) as boss:
        assert boss.post("/roots", {"path": path})["added_by"] == "boss"
        boss.delete(f"/roots?path={path}")
