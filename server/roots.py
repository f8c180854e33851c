"""Which folders datasets may be read from: those in the settings, and those added since, in SQL.

Both are looked up whenever somebody asks, so that a change counts at once.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, InvalidInput, NotAllowed, NotFound
from ddlp.core.messages.roots import RootAdded, RootCreate, RootInfo, RootRemoved
from ddlp.core.settings import Settings
from ddlp.core.types import RootState
from ddlp.core.urls import refuse_address
from ddlp.server.database import insert_of
from ddlp.server.identity import actor
from ddlp.server.ledger import audit
from ddlp.server.models import Dataset, DatasetRoot
from ddlp.server.run_names import named

_LONGEST_BYTES = 2048
"""PostgreSQL's indexes take little more."""
_SUBJECT = 128


@dataclass(frozen=True)
class AllowedFolders:
    """The folders below which datasets may be read at this moment, as real paths."""

    roots: tuple[Path, ...]
    drawn: Path
    """Where the server draws images of its own, which may always be read."""

    def hold(self, path: Path) -> bool:
        """Whether a real path lies in one of them."""
        return any(path.is_relative_to(root) for root in (*self.roots, self.drawn))

    def refusal(self, place: str | Path) -> NotAllowed:
        """Why a place outside them is refused, and what to do about it."""
        known = ", ".join(map(str, self.roots)) or "there is none yet"
        return NotAllowed(
            f"{place} is not below an allowed folder ({known}); allow one with: "
            "ddlp roots add FOLDER"
        )


def allowed(session: Session, settings: Settings) -> AllowedFolders:
    """The folders that are allowed now."""
    added = session.scalars(select(DatasetRoot.path).order_by(DatasetRoot.path))
    roots = dict.fromkeys([*settings.roots, *map(Path, added)])
    return AllowedFolders(tuple(roots), drawn_images(settings))


def drawn_images(settings: Settings) -> Path:
    """Where the server draws images of its own."""
    return (settings.home / "demo-images").resolve()


def resolved(text: str) -> Path:
    """The real path that a text names, whether something is there or not.

    Nothing that is said of it depends on who has a home here, or on what lies elsewhere.
    """
    refuse_address(text)
    if text.startswith("~") and text.partition("/")[0] != "~":
        raise InvalidInput(f"{text!r} is not a full path; begin with / as on the server")
    try:
        path = Path(text).expanduser()
        return path.resolve()
    except RuntimeError:  # links in a circle
        return Path(os.path.abspath(text))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{text!r} is not a path: {error}") from error


def check_settings(settings: Settings) -> None:
    """Refuse to start with a folder that does not exist, cannot be read, or is all there is."""
    for given in settings.dataset_roots:
        try:
            refuse_address(given)
            path = given.resolve()
            _check_folder(path)
            _check_width(path)
        except InvalidInput as error:
            raise InvalidInput(f"{error} (it comes from --allow or DDLP_DATASET_ROOTS)") from error


def list_all(session: Session, settings: Settings) -> list[RootInfo]:
    """All allowed folders, those of the settings first."""
    added = {row.path: row for row in session.scalars(select(DatasetRoot))}
    datasets = _datasets(session)
    named_there = set(settings.roots)
    return [
        _info(path, added.get(str(path)), path in named_there, datasets)
        for path in allowed(session, settings).roots
    ]


def add(session: Session, settings: Settings, body: RootCreate) -> RootAdded:
    """Allow a folder from now on, over restarts too; doing so twice is harmless."""
    refuse_address(body.path)
    if not body.path.startswith(("/", "~")):
        raise InvalidInput(f"{body.path!r} is not a full path; begin with / as on the server")
    path = resolved(body.path)
    _check_folder(path)
    if not body.force:
        _check_width(path)
    _check_storable(path)
    before, now = allowed(session, settings).roots, time.time()
    row = {"path": str(path), "added_at": now, "added_by": actor()}
    insert = insert_of(session)(DatasetRoot).values(row).on_conflict_do_nothing()
    is_new = session.execute(insert.returning(DatasetRoot.path)).first() is not None
    if is_new:
        audit(session, "root.add", _subject(path), now, path=str(path))
    note = _note_of_new(path, before, settings) if is_new else f"{path} is allowed already."
    known = session.get_one(DatasetRoot, str(path))
    info = _info(path, known, path in settings.roots, _datasets(session))
    return RootAdded(**info.model_dump(), note=note)


def remove(session: Session, settings: Settings, text: str) -> RootRemoved:
    """Allow a folder no longer; the datasets below it stay registered, and runs go on."""
    # What was a folder may be a link by now.
    places = dict.fromkeys([str(resolved(text)), os.path.normpath(text)])
    row = next(filter(None, (session.get(DatasetRoot, place) for place in places)), None)
    if row is None:
        raise _not_removable(session, settings, list(places))
    path = Path(row.path)
    session.delete(row)
    session.flush()
    audit(session, "root.remove", _subject(path), time.time(), path=row.path)
    rest = allowed(session, settings)
    lost = [name for name, place in _below(path, _datasets(session)) if not rest.hold(place)]
    return RootRemoved(removed=row.path, datasets=lost, note=_note_of_removed(path, rest, lost))


def _check_folder(path: Path) -> None:
    """Refuse what is not a folder that this process can read."""
    try:
        os.scandir(path).close()
    except FileNotFoundError as error:
        raise InvalidInput(f"{path} does not exist; create or mount it first") from error
    except NotADirectoryError as error:
        raise InvalidInput(f"{path} is not a folder; give the folder that it lies in") from error
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read ({error.strerror}); let the server's user read it, or give "
            "another folder"
        ) from error


def _check_width(path: Path) -> None:
    """Refuse the whole filesystem, unless somebody insists."""
    if path == Path(path.anchor):
        raise InvalidInput(
            f"{path} would allow every file that the server can read, such as those in /etc; "
            f"allow narrower folders, or insist with: ddlp roots add {path} --force"
        )


def _check_storable(path: Path) -> None:
    try:
        length = len(str(path).encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{str(path)!r} is not UTF-8; rename the folder") from error
    if length > _LONGEST_BYTES:
        raise InvalidInput(f"{path} is longer than {_LONGEST_BYTES} bytes; give a folder above it")


def _note_of_new(path: Path, before: Iterable[Path], settings: Settings) -> str:
    if path in settings.roots:
        return f"{path} is allowed by the settings already; it now stays allowed without them."
    above = next((root for root in before if path.is_relative_to(root)), None)
    if above is not None:
        return f"{path} lies in {above}, which is allowed already."
    return f"Datasets below {path} can be registered now."


def _note_of_removed(path: Path, rest: AllowedFolders, lost: list[str]) -> str:
    above = next((root for root in rest.roots if path.is_relative_to(root)), None)
    if above is not None:
        where = "by the settings" if above == path else f"as part of {above}"
        return f"{path} was removed, but it is still allowed {where}."
    if lost:
        return (
            f"{path} was removed. Datasets below it stay registered and can be trained on, but "
            f"not scanned again: {named(lost)}."
        )
    return f"{path} was removed. No dataset is affected."


def _not_removable(session: Session, settings: Settings, places: list[str]) -> Exception:
    if any(Path(place) in settings.roots for place in places):
        return Conflict(
            f"{places[0]} comes from the settings; restart the server without --allow {places[0]} "
            "or without it in DDLP_DATASET_ROOTS (if they name no folder, the one that the server "
            "was started in is allowed)"
        )
    added = [*session.scalars(select(DatasetRoot.path).order_by(DatasetRoot.path))]
    return NotFound(
        f"{places[0]} was not added; folders that were: {named(added) if added else 'none'}"
    )


def _info(
    path: Path, row: DatasetRoot | None, from_settings: bool, datasets: dict[str, Path]
) -> RootInfo:
    return RootInfo(
        path=str(path),
        from_settings=from_settings,
        added_at=row.added_at if row else None,
        added_by=row.added_by if row else None,
        state=_state(path),
        datasets=[name for name, _ in _below(path, datasets)],
    )


def _state(path: Path) -> RootState:
    try:
        os.scandir(path).close()
    except (FileNotFoundError, NotADirectoryError):
        return RootState.MISSING
    except OSError:  # such as a mount whose other end is gone
        return RootState.UNREADABLE
    return RootState.AVAILABLE


def _datasets(session: Session) -> dict[str, Path]:
    rows = session.execute(select(Dataset.name, Dataset.uri).order_by(Dataset.name))
    return {name: Path(uri) for name, uri in rows}


def _below(path: Path, datasets: dict[str, Path]) -> list[tuple[str, Path]]:
    return [(name, place) for name, place in datasets.items() if place.is_relative_to(path)]


def _subject(path: Path) -> str:
    """The path as the audit can keep it: of a long one, its end."""
    text = str(path)
    return text if len(text) <= _SUBJECT else "…" + text[1 - _SUBJECT :]
