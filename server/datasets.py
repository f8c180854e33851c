"""Datasets: their rows in the database, from the first word of one to its removal."""

import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import ColumnElement, delete, exists, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.sources.splits import dataset_name, refuse_splits
from ddlp.core.errors import Conflict, DdlpError, InvalidInput, NotFound
from ddlp.core.lifecycle import ACTIVE
from ddlp.core.messages import (
    DatasetCreate,
    DatasetInfo,
    PackingInfo,
    RejectedInfo,
    RescanInfo,
    ScanInfo,
)
from ddlp.core.settings import Settings
from ddlp.core.types import DatasetState, RunState
from ddlp.server import pack_folders, roots, versions
from ddlp.server.ledger import audit
from ddlp.server.models import Dataset, Run
from ddlp.server.pack_plan import check_version, pixels_of, plan_of
from ddlp.server.roots import AllowedFolders
from ddlp.server.run_names import named
from ddlp.server.versions import Leftover


def add(session: Session, settings: Settings, body: DatasetCreate) -> Dataset:
    """Remember a dataset that is to be scanned; one whose scan failed gives its name away."""
    root = allowed_path(roots.allowed(session, settings), body.uri)
    if not body.as_classes:
        refuse_splits(root)
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
        as_classes=body.as_classes,
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


def finish(session: Session, dataset_id: uuid.UUID) -> list[Leftover]:
    """Take over what a scan found; gives the indexes that are not needed where they lie."""
    row = session.get(Dataset, dataset_id)
    if row is None:
        raise NotFound("the dataset was removed while it was scanned")
    index = DatasetIndex(Path(row.index_path))
    if versions.is_rescan(row.name):
        return versions.take_over(session, row, index)
    check_version(row, index)
    versions.describe(row, index)
    detail = {"samples": row.samples, "rejected": row.rejected}
    audit(session, "dataset.ready", row.name, time.time(), **detail)
    return []


def fail(session: Session, dataset_id: uuid.UUID, reason: str) -> None:
    """A scan or a packing came to nothing."""
    row = session.get(Dataset, dataset_id)
    if row is not None and versions.is_rescan(row.name):
        versions.give_up(session, row, reason)
    elif row is not None:
        row.state, row.reason = DatasetState.FAILED.value, reason
        audit(session, "dataset.failed", row.name, time.time(), reason=reason)


def remove(
    session: Session,
    settings: Settings,
    name: str,
    *,
    only_copy: bool = False,
    keep_runs: bool = False,
) -> Dataset:
    """Forget a dataset of which there is no run, and that no packing needs any more.

    With `keep_runs`, runs that are over do not hold it. One whose shards would go, and may be all
    that there is, only goes where that is accepted.
    """
    row = find(session, name)
    if not only_copy:
        _check_origin_is_known(session, settings, row)
    # A run that is made at this moment is either seen below, or finds no dataset: PostgreSQL makes
    # one wait for the other by this lock, SQLite by the one statement that looks and deletes.
    session.execute(select(Dataset.id).where(Dataset.id == row.id).with_for_update())
    states = ACTIVE if keep_runs else RunState
    using = (Run.dataset_id == row.id, Run.state.in_([state.value for state in states]))
    made = aliased(Dataset)
    packing = (made.origin_id == row.id, made.state == DatasetState.PACKING.value)
    unused = delete(Dataset).where(
        Dataset.id == row.id, ~exists().where(*using), ~exists().where(*packing)
    )
    if session.execute(unused.returning(Dataset.id)).first() is None:
        makes = [*session.scalars(select(made.name).where(*packing))]
        raise _still_used(session, name, using, makes)
    if (scan := versions.under_way(session, row.name)) is not None:
        session.delete(scan)
    audit(session, "dataset.remove", name, time.time(), uri=row.uri)
    return row


def rescan(session: Session, name: str) -> tuple[Dataset, Dataset, bool]:
    """Return the dataset, the row that is scanned in its place, and whether that is new."""
    row = find_ready(session, name)
    return row, *versions.begin(session, row)


def _still_used(
    session: Session, name: str, using: Sequence[ColumnElement[bool]], makes: list[str]
) -> DdlpError:
    """Why a dataset cannot be removed now."""
    runs = session.scalars(select(Run).where(*using).order_by(Run.created_at.desc())).all()
    active = [run.name for run in runs if RunState(run.state) in ACTIVE]
    users = active + [f"the packing of {made_of_it}" for made_of_it in makes]
    if users:
        return Conflict(
            f"dataset {name} is used by {named(users)}; cancel that first, or wait for its end"
        )
    if runs:
        return Conflict(
            f"there are runs of dataset {name}: {named([run.name for run in runs])}; delete them "
            "first with: ddlp run delete RUN, or keep them, although they cannot be extended or "
            "trained again then, with: --keep-runs (REST: ?keep_runs=true)"
        )
    return NotFound(f"dataset {name} was removed meanwhile; see: ddlp dataset list")


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
            "FOLDER; to remove them all the same, say --only-copy (REST: ?only_copy=true)"
        )


def allowed_path(folders: AllowedFolders, uri: str) -> Path:
    """The real path of a dataset, if it lies below an allowed folder."""
    path = roots.resolved(uri)
    if not folders.hold(path):
        raise folders.refusal(uri)  # not where a link leads to
    try:
        there = path.exists()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    if not there:
        raise InvalidInput(f"{path} does not exist; give a folder, a manifest, tar files or arrays")
    return path


def place_of(settings: Settings, folders: AllowedFolders, row: Dataset) -> Path:
    """Where a dataset lies; what was packed here may lie at home too."""
    if row.packing is not None:
        return pack_folders.allowed(settings, folders, row.uri)
    return allowed_path(folders, row.uri)


def is_known(session: Session, dataset_id: uuid.UUID) -> bool:
    """Whether a dataset was not removed yet."""
    return session.get(Dataset, dataset_id) is not None


def find(session: Session, name: str) -> Dataset:
    """A dataset by its name."""
    row = versions.find(session, name)
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


def find_version(session: Session, name: str, version: str) -> Dataset:
    """A dataset that can be used, in the version whose first digits are given."""
    row = find_ready(session, name)
    if not row.version.startswith(version):
        row = versions.of_version(session, name, version) or row
    if not row.version.startswith(version):
        raise NotFound(f"dataset {name} has version {row.version[:12]} now, not {version[:12]}")
    return row


def list_all(session: Session, *, every: bool = False) -> list[Dataset]:
    """All datasets, by name; with `every` also earlier versions."""
    rows = session.scalars(select(Dataset).order_by(Dataset.name))
    return [
        row
        for row in rows
        if versions.is_current(row.name) or (every and not versions.is_rescan(row.name))
    ]


def scanning(session: Session) -> list[Dataset]:
    """What is to be scanned, rescans among it."""
    return list(
        session.scalars(select(Dataset).where(Dataset.state == DatasetState.SCANNING.value))
    )


def rejected(row: Dataset, offset: int, limit: int) -> list[RejectedInfo]:
    """What the scan of a dataset left out, and why."""
    index = DatasetIndex(Path(row.index_path))
    found = index.list_rejected(offset, limit)
    return [RejectedInfo(name=entry.name, reason=entry.reason) for entry in found]


def info(
    row: Dataset,
    progress: ScanInfo | None = None,
    packing: PackingInfo | None = None,
    rescan: RescanInfo | None = None,
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
        notes=row.notes,
        as_classes=row.as_classes,
        progress=progress or whole,
        packing=packing,
        rescan=rescan,
        lossy=lossy,
        pixels=pixels,
        created_at=row.created_at,
    )


def _taken(name: str) -> Conflict:
    return Conflict(f"there is a dataset {name} already; choose another name")


def _name_of(root: Path) -> str:
    name = dataset_name(root)
    if not name:
        raise InvalidInput(f"no name can be made from {root}; give one with --name")
    return name
