"""Registers datasets: a scan, an index file, a row."""

import re
import time
import uuid
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ddlp.core.dataset import scan_folder, write_index
from ddlp.core.errors import Conflict, InvalidInput, NotAllowed, NotFound
from ddlp.core.messages import DatasetCreate, DatasetInfo
from ddlp.core.settings import Settings
from ddlp.server.ledger import audit
from ddlp.server.models import Dataset


def register(session: Session, settings: Settings, body: DatasetCreate) -> Dataset:
    """Scan a folder and remember it; nothing is left behind when that fails."""
    root = allowed_path(settings, body.uri)
    name = body.name or _name_of(root)
    if session.scalar(select(Dataset).where(Dataset.name == name)):
        raise Conflict(f"there is a dataset {name} already; choose another name")
    dataset_id = uuid.uuid4()
    index_path = settings.home.absolute() / "indexes" / f"{dataset_id}.idx"
    summary = write_index(scan_folder(root, settings.roots), index_path)
    row = Dataset(
        id=dataset_id,
        name=name,
        uri=str(root),
        version=summary.version,
        samples=summary.samples,
        classes=list(summary.classes),
        total_bytes=summary.total_bytes,
        index_path=str(index_path),
        created_at=time.time(),
    )
    try:
        session.add(row)
        session.flush()
    except IntegrityError as error:
        index_path.unlink()
        raise Conflict(f"there is a dataset {name} already; choose another name") from error
    audit(session, "dataset.add", name, row.created_at, uri=row.uri, samples=row.samples)
    return row


def allowed_path(settings: Settings, uri: str) -> Path:
    """The real path of a folder, if it lies below one that the operator allowed."""
    try:
        path = Path(uri).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(f"{uri!r} is not a path: {error}") from error
    if any(path.is_relative_to(root) for root in settings.roots):
        return path
    allowed = ", ".join(str(root) for root in settings.roots)
    raise NotAllowed(
        f"{path} is not below a folder that was allowed ({allowed}); "
        "start the server with: ddlp up --allow FOLDER, or set DDLP_DATASET_ROOTS"
    )


def find(session: Session, name: str) -> Dataset:
    """A dataset by its name."""
    row = session.scalar(select(Dataset).where(Dataset.name == name))
    if row is None:
        raise NotFound(f"there is no dataset {name}; see: ddlp dataset list")
    return row


def info(row: Dataset) -> DatasetInfo:
    """What the outside sees of a dataset."""
    return DatasetInfo(
        name=row.name,
        uri=row.uri,
        version=row.version,
        samples=row.samples,
        classes=row.classes,
        total_bytes=row.total_bytes,
        created_at=row.created_at,
    )


def _name_of(root: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", root.name).strip("-._")[:64]
    if not name:
        raise InvalidInput(f"no name can be made from {root}; give one with --name")
    return name
