"""The folders that shards are written to: where one may lie, and what becomes of it.

A folder that was chosen here lies below the home folder, and its shards go with their dataset. In
one that the user chose nothing is ever removed but a mark, by which workers know that they see the
same folder.
"""

import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.filesystem import free_bytes
from ddlp.core.messages import PACK_MARK
from ddlp.core.records import shard_name
from ddlp.core.settings import Settings
from ddlp.core.units import size
from ddlp.server import roots
from ddlp.server.models import Dataset
from ddlp.server.pack_plan import PackPlan, plan_of
from ddlp.server.roots import AllowedFolders

_ENDING = ".ddlp"
_SPARE = 1.02
"""What is asked for beyond the forecast, which comes from a few samples."""


def own_root(settings: Settings) -> Path:
    """Where folders lie that nobody chose."""
    return (settings.home / "packed").resolve()


def choose(settings: Settings, folders: AllowedFolders, name: str, into: str | None) -> Path:
    """The real path of the folder that is meant, if shards may be written there."""
    usual = own_root(settings) / name
    if into is None:
        return usual
    folder = allowed(settings, folders, into)
    for own in (settings.home.resolve(), own_root(settings)):
        if folder != usual and _overlap(folder, own):
            raise InvalidInput(
                f"{folder} lies in {own}, the server's own folder, or contains it; choose another "
                f"--into, or leave it out for {usual}"
            )
    return folder


def allowed(settings: Settings, folders: AllowedFolders, into: str) -> Path:
    """A folder, there or not, below an allowed one, or one of the server's own."""
    folder = roots.resolved(into)
    if not any(folder.is_relative_to(root) for root in (*folders.roots, own_root(settings))):
        raise folders.refusal(into)  # not where a link leads to
    return folder


def check_apart(session: Session, folder: Path) -> None:
    """Refuse a folder that lies in another dataset's, or around it: one would change the other."""
    for name, uri in session.execute(select(Dataset.name, Dataset.uri)):
        place = Path(uri)
        if folder == place:
            raise Conflict(f"{folder} holds dataset {name}; choose another --into")
        if folder.is_relative_to(place):
            raise InvalidInput(
                f"{folder} lies in {place}, which is dataset {name}, whose contents would change "
                "by it; choose another --into"
            )
        if place.is_relative_to(folder):
            raise InvalidInput(
                f"{folder} contains {place}, which is dataset {name}; choose another --into"
            )


def check_free(folder: Path, shards: int, *, own: bool) -> None:
    """Refuse a folder that holds anything but shards of the same cut."""
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be used ({error.strerror}); choose another") from error
    fitting = {shard_name(number, shards) for number in range(shards)}
    foreign = {name for name in names - fitting if not name.startswith(".")}
    if own and all(name.endswith(_ENDING) for name in foreign):
        return  # left by another packing: cleared away before this one begins
    if foreign:
        raise InvalidInput(
            f"{folder} is not empty (it holds {min(foreign)}); choose another --into"
        )


def check_room(folder: Path, nbytes: float) -> None:
    """Refuse to begin what would not fit."""
    there = sum(path.stat().st_size for path in folder.glob(f"*{_ENDING}"))
    need, free = int(nbytes * _SPARE), free_bytes(folder) + there
    if need > free:
        raise Conflict(
            f"{folder} has room for {size(free)} and about {size(need)} would be written; "
            "make room, or choose another --into"
        )


def prepare(folder: Path, packing: uuid.UUID, *, own: bool) -> None:
    """Make a folder ready for workers; what another packing left in one of ours is of no use."""
    mark = folder / PACK_MARK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if own and _marked(folder) != str(packing):
            for shard in folder.glob(f"*{_ENDING}"):
                shard.unlink()
        mark.write_text(str(packing))
    except OSError as error:
        raise InvalidInput(
            f"{folder} cannot be written to ({error.strerror}); choose another --into"
        ) from error


def unmark(folder: Path, packing: uuid.UUID, *, own: bool) -> None:
    """No worker writes there any more; in a folder of ours the mark tells whose the shards are."""
    if not own and _marked(folder) == str(packing):
        with suppress(OSError):
            (folder / PACK_MARK).unlink()


def goes(session: Session, settings: Settings, row: Dataset, plan: PackPlan) -> bool:
    """Whether a packed dataset's shards go with it: nobody else chose their folder, or uses it."""
    folder = Path(row.uri)
    others = select(Dataset.name).where(Dataset.uri == row.uri, Dataset.id != row.id)
    return (
        plan.own
        and folder.parent == own_root(settings)
        and not folder.is_symlink()
        and _marked(folder) in (None, str(row.id))
        and session.scalar(others) is None
    )


def clear(session: Session, settings: Settings, row: Dataset) -> Path | None:
    """A packed dataset was removed: the folder whose shards went with it, if they did.

    Only what the packing wrote is removed, and the folder if nothing else lies there.
    """
    folder, plan = Path(row.uri), plan_of(row)
    unmark(folder, row.id, own=plan.own)
    if not goes(session, settings, row, plan):
        return None
    there = folder.is_dir()
    with suppress(OSError):
        for path in list(_written(folder, plan.shards)):
            path.unlink(missing_ok=True)
        folder.rmdir()
    return folder if there else None


def _written(folder: Path, shards: int) -> Iterator[Path]:
    """What a packing leaves in its folder."""
    for number in range(shards):
        yield folder / shard_name(number, shards)
    yield from folder.glob(f".*{_ENDING}.*.unfinished")
    yield folder / PACK_MARK


def _marked(folder: Path) -> str | None:
    """The packing that a folder is for."""
    try:
        return (folder / PACK_MARK).read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)
