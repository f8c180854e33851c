"""Datasets: their rows in the database, from the first word of one to its removal."""

import re
import time
import uuid
from pathlib import Path

from sqlalchemy import delete, exists, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import Conflict, InvalidInput, NotAllowed, NotFound
from ddlp.core.lifecycle import ACTIVE
from ddlp.core.messages import (
    DatasetCreate,
    DatasetInfo,
    PackingInfo,
    RejectedInfo,
    ScanInfo,
)
from ddlp.core.settings import Settings
from ddlp.core.types import DatasetState
from ddlp.server import pack_folders
from ddlp.server.ledger import audit
from ddlp.server.models import Dataset, Run
from ddlp.server.pack_plan import check_version, pixels_of, plan_of


def add(session: Session, settings: Settings, body: DatasetCreate) -> Dataset:
    """Remember a dataset that is to be scanned; one whose scan failed gives its name away."""
    root = allowed_path(settings, body.uri)
    name = body.name or _name_of(root)
    known = session.scalar(select(Dataset).where(Dataset.name == name))
    if known is not None and known.state == DatasetState.FAILED.value:
        session.delete(known)
        session.flush()
    elif known is not None:
        raise _taken(name)
    dataset_id = uuid.uuid4()
    row = Dataset(
        id=dataset_id,
        name=name,
        uri=str(root),
        check=body.check,
        state=DatasetState.SCANNING.value,
        index_path=str(settings.home.absolute() / "indexes" / f"{dataset_id}.idx"),
        created_at=time.time(),
    )
    try:
        session.add(row)
        session.flush()
    except IntegrityError as error:
        raise _taken(name) from error
    audit(session, "dataset.add", name, row.created_at, uri=row.uri)
    return row


def finish(session: Session, dataset_id: uuid.UUID) -> bool:
    """Take over what a scan found, unless the dataset was removed meanwhile."""
    row = session.get(Dataset, dataset_id)
    if row is None:
        return False
    index = DatasetIndex(Path(row.index_path))
    check_version(row, index)
    row.state = DatasetState.READY.value
    row.kind, row.version, row.samples = index.kind, index.version, index.samples
    row.classes, row.total_bytes = list(index.classes), index.total_bytes
    row.rejected, row.packed_with = index.rejected, index.packing
    detail = {"samples": row.samples, "rejected": row.rejected}
    audit(session, "dataset.ready", row.name, time.time(), **detail)
    return True


def fail(session: Session, dataset_id: uuid.UUID, reason: str) -> None:
    """A scan or a packing came to nothing."""
    row = session.get(Dataset, dataset_id)
    if row is not None:
        row.state, row.reason = DatasetState.FAILED.value, reason
        audit(session, "dataset.failed", row.name, time.time(), reason=reason)


def remove(session: Session, settings: Settings, name: str, *, only_copy: bool = False) -> Dataset:
    """Forget a dataset that no run and no packing needs any more.

    One whose shards would go, and may be all that there is, only goes where that is accepted.
    """
    row = find(session, name)
    if not only_copy:
        _check_origin_is_known(session, settings, row)
    # A run that is made at this moment is either seen below, or finds no dataset: PostgreSQL makes
    # one wait for the other by this lock, SQLite by the one statement that looks and deletes.
    session.execute(select(Dataset.id).where(Dataset.id == row.id).with_for_update())
    active = [state.value for state in ACTIVE]
    using = (Run.dataset_id == row.id, Run.state.in_(active))
    made = aliased(Dataset)
    packing = (made.origin_id == row.id, made.state == DatasetState.PACKING.value)
    unused = delete(Dataset).where(
        Dataset.id == row.id, ~exists().where(*using), ~exists().where(*packing)
    )
    if session.execute(unused.returning(Dataset.id)).first() is None:
        users = [*session.scalars(select(Run.name).where(*using))]
        makes = session.scalars(select(made.name).where(*packing))
        users += [f"the packing of {made_of_it}" for made_of_it in makes]
        if not users:
            raise NotFound(f"dataset {name} was removed meanwhile; see: ddlp dataset list")
        raise Conflict(
            f"dataset {name} is used by {', '.join(users)}; cancel that first, or wait for its end"
        )
    audit(session, "dataset.remove", name, time.time(), uri=row.uri)
    return row


def _check_origin_is_known(session: Session, settings: Settings, row: Dataset) -> None:
    if row.packing is None or not pack_folders.goes(session, settings, row, plan_of(row)):
        return
    if row.origin_id is not None and is_known(session, row.origin_id):
        return
    if next(Path(row.uri).glob("*.ddlp"), None) is not None:
        raise Conflict(
            f"dataset {row.origin}, of which {row.name} was made, is not registered any more: the "
            f"shards in {row.uri}, which would be removed, may be the only copy; to keep them, "
            f"copy that folder, or make files of them with: ddlp dataset unpack {row.name} --into "
            "FOLDER; to remove them all the same, say --yes (REST: ?only_copy=true)"
        )


def allowed_path(settings: Settings, uri: str) -> Path:
    """The real path of a dataset, if it lies below a folder that the operator allowed."""
    try:
        path = Path(uri).expanduser().resolve()
        there = path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(f"{uri!r} is not a path: {error}") from error
    if not any(path.is_relative_to(root) for root in (*settings.roots, drawn_images(settings))):
        allowed = ", ".join(str(root) for root in settings.roots)
        raise NotAllowed(
            f"{path} is not below a folder that was allowed ({allowed}); "
            "start the server with: ddlp up --allow FOLDER, or set DDLP_DATASET_ROOTS"
        )
    if not there:
        raise InvalidInput(f"{path} does not exist; give a folder, a manifest, tar files or arrays")
    return path


def drawn_images(settings: Settings) -> Path:
    """Where the server draws images of its own, which may always be read."""
    return (settings.home / "demo-images").resolve()


def place_of(settings: Settings, row: Dataset) -> Path:
    """Where a dataset lies; what was packed here may lie at home too."""
    if row.packing is not None:
        return pack_folders.allowed(settings, row.uri)
    return allowed_path(settings, row.uri)


def is_known(session: Session, dataset_id: uuid.UUID) -> bool:
    """Whether a dataset was not removed yet."""
    return session.get(Dataset, dataset_id) is not None


def find(session: Session, name: str) -> Dataset:
    """A dataset by its name."""
    row = session.scalar(select(Dataset).where(Dataset.name == name))
    if row is None:
        raise NotFound(f"there is no dataset {name}; see: ddlp dataset list")
    return row


def find_ready(session: Session, name: str) -> Dataset:
    """A dataset that can be used."""
    row = find(session, name)
    if row.state in (DatasetState.SCANNING.value, DatasetState.PACKING.value):
        raise Conflict(f"dataset {name} is still {row.state}; wait until it is ready")
    if row.state != DatasetState.READY.value:
        raise Conflict(f"dataset {name} is {row.state}: {row.reason}")
    return row


def list_all(session: Session) -> list[Dataset]:
    """All datasets, by name."""
    return list(session.scalars(select(Dataset).order_by(Dataset.name)))


def rejected(row: Dataset, offset: int, limit: int) -> list[RejectedInfo]:
    """What the scan of a dataset left out, and why."""
    index = DatasetIndex(Path(row.index_path))
    found = index.list_rejected(offset, limit)
    return [RejectedInfo(name=entry.name, reason=entry.reason) for entry in found]


def info(
    row: Dataset, progress: ScanInfo | None = None, packing: PackingInfo | None = None
) -> DatasetInfo:
    """What the outside sees of a dataset; `progress` is given while it is scanned."""
    lossy, pixels = pixels_of(row)
    done = row.samples + row.rejected
    whole = ScanInfo(found=done, done=done, rejected=row.rejected, bytes=row.total_bytes)
    return DatasetInfo(
        name=row.name,
        uri=row.uri,
        state=DatasetState(row.state),
        reason=row.reason,
        kind=row.kind,
        check=row.check,
        version=row.version,
        samples=row.samples,
        classes=row.classes,
        total_bytes=row.total_bytes,
        rejected=row.rejected,
        progress=progress or whole,
        packing=packing,
        lossy=lossy,
        pixels=pixels,
        created_at=row.created_at,
    )


def _taken(name: str) -> Conflict:
    return Conflict(f"there is a dataset {name} already; choose another name")


def _name_of(root: Path) -> str:
    stem = root.name if root.is_dir() else root.name.split(".")[0]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:64]
    if not name:
        raise InvalidInput(f"no name can be made from {root}; give one with --name")
    return name
