"""Versions of datasets: what a rescan does, the names of earlier versions, and when those go.

A rescan is a row of its own, `NAME@rescan`, which nobody else sees. When it finds another version,
the dataset's row is renamed to `NAME@` and the first 8 digits of its version, and the new row takes
the name. Runs refer to rows and not to names, so runs over the earlier version keep their index.
"""

import time
import uuid
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, exists, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.files import CHANGED
from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.types import DatasetState
from ddlp.server.ledger import audit
from ddlp.server.models import Dataset, Run

_SIGN = "@"
_UNDER_WAY = f"{_SIGN}rescan"
_DIGITS = 8


class Leftover(NamedTuple):
    """An index that is not needed where it lies, and the one whose place it takes, if any."""

    path: Path
    replaces: Path | None = None


def base_name(name: str) -> str:
    """The dataset's name without a version."""
    return name.partition(_SIGN)[0]


def is_current(name: str) -> bool:
    """Whether a row of this name is a dataset itself, not an earlier version or a rescan."""
    return _SIGN not in name


def is_rescan(name: str) -> bool:
    """Whether a row of this name is a rescan under way."""
    return name.endswith(_UNDER_WAY)


def name_of(row: Dataset) -> str:
    """The name by which a version can always be found: `photos@1a2b3c4d`."""
    return f"{base_name(row.name)}{_SIGN}{row.version[:_DIGITS]}"


def find(session: Session, name: str) -> Dataset | None:
    """A dataset by its name, or one of its versions by `NAME@VERSION`."""
    if is_rescan(name):
        return None
    row = session.scalar(select(Dataset).where(Dataset.name == name))
    base, sign, version = name.partition(_SIGN)
    if row is None and sign and version:
        current = session.scalar(select(Dataset).where(Dataset.name == base))
        row = current if current is not None and current.version.startswith(version) else None
    return row


def of_version(session: Session, name: str, version: str) -> Dataset | None:
    """The current or an earlier row of a dataset that has this version."""
    found = find(session, f"{base_name(name)}{_SIGN}{version[:_DIGITS]}")
    return found if found is not None and found.version.startswith(version) else None


def earlier(session: Session, name: str) -> list[str]:
    """The names of the earlier versions of a dataset that are still kept."""
    return sorted(session.scalars(select(Dataset.name).where(_of(base_name(name)))))


def begin(session: Session, row: Dataset) -> tuple[Dataset, bool]:
    """Return the row to scan, and whether it is new: a rescan under way is not begun again."""
    _check_can_change(row)
    known = under_way(session, row.name)
    if known is not None:
        return known, False
    scan_id = uuid.uuid4()
    scan = Dataset(
        id=scan_id,
        name=f"{row.name}{_UNDER_WAY}",
        uri=row.uri,
        check=row.check,
        as_classes=row.as_classes,
        state=DatasetState.SCANNING.value,
        index_path=str(Path(row.index_path).with_name(f"{scan_id}.idx")),
        created_at=time.time(),
    )
    row.rescan = {"state": "scanning", "scan": str(scan_id)}
    try:
        session.add(scan)
        session.flush()
    except IntegrityError as error:
        raise Conflict(f"dataset {row.name} is being rescanned already; try again") from error
    audit(session, "dataset.rescan", row.name, scan.created_at, uri=row.uri)
    return scan, True


def _check_can_change(row: Dataset) -> None:
    if not is_current(row.name):
        raise InvalidInput(
            f"{row.name} is an earlier version, which never changes; rescan the dataset with: "
            f"ddlp dataset rescan {base_name(row.name)}"
        )
    if row.packing is not None:
        raise Conflict(
            f"dataset {row.name} was packed by this server from dataset {row.origin}, and its "
            f"shards do not change; rescan that one with: ddlp dataset rescan {row.origin}, then "
            f"pack it again with: ddlp dataset pack {row.origin} --name NAME"
        )


def cure(name: str) -> str:
    """What to do where a file of a dataset has changed since it was scanned."""
    base = base_name(name)
    if is_current(name):
        return f"rescan the dataset with: ddlp dataset rescan {base}"
    return f"dataset {base} was rescanned since; make a new run over it"


def cured(reason: str, name: str) -> str:
    """A reason with its cure, if it is that a file has changed."""
    return f"{reason}; {cure(name)}" if CHANGED in reason else reason


def under_way(session: Session, name: str) -> Dataset | None:
    """The row of the rescan of a dataset, if there is one."""
    return session.scalar(select(Dataset).where(Dataset.name == f"{name}{_UNDER_WAY}"))


def describe(row: Dataset, index: DatasetIndex) -> None:
    """Write down what a scan found."""
    row.state = DatasetState.READY.value
    row.kind, row.version, row.samples = index.kind, index.version, index.samples
    row.classes, row.total_bytes = list(index.classes), index.total_bytes
    row.rejected, row.packed_with = index.rejected, index.packing
    row.notes = index.notes


def take_over(session: Session, scan: Dataset, index: DatasetIndex) -> list[Leftover]:
    """Give the dataset's name to what a rescan found, unless that is the same version."""
    name = base_name(scan.name)
    here = Path(scan.index_path)
    old = session.scalar(select(Dataset).where(Dataset.name == name).with_for_update())
    if old is None:
        session.delete(scan)
        return [Leftover(here)]
    if index.version == old.version:
        session.delete(scan)
        describe(old, index)
        old.rescan = {"state": "unchanged"}
        audit(session, "dataset.unchanged", name, time.time(), version=old.version)
        return [Leftover(here, Path(old.index_path))]
    return _replace(session, old, scan, index)


def _replace(session: Session, old: Dataset, scan: Dataset, index: DatasetIndex) -> list[Leftover]:
    """Swap the names; a version that was there before is taken up again."""
    name, left, new = old.name, list[Leftover](), scan
    before = session.scalar(select(Dataset).where(Dataset.version == index.version, _of(name)))
    if before is not None:
        left.append(Leftover(Path(scan.index_path), Path(before.index_path)))
        session.delete(scan)
        new = before
    old.rescan, old.name = None, name_of(old)
    session.flush()
    describe(new, index)
    new.name = name
    session.flush()
    left += drop_unused(session, name)
    kept = old.name if old.name in earlier(session, name) else None
    new.rescan = {"state": "done", "earlier": kept}
    detail = {"samples": new.samples, "rejected": new.rejected, "version": new.version}
    audit(session, "dataset.rescanned", name, time.time(), **detail, earlier=kept)
    return left


def _of(name: str) -> ColumnElement[bool]:
    """Rows that are earlier versions of a dataset."""
    is_version = Dataset.name.startswith(f"{name}{_SIGN}", autoescape=True)
    return is_version & (Dataset.name != f"{name}{_UNDER_WAY}")


def give_up(session: Session, scan: Dataset, reason: str) -> None:
    """A rescan failed: the dataset stays as it was, and says why."""
    name = base_name(scan.name)
    row = session.scalar(select(Dataset).where(Dataset.name == name))
    session.delete(scan)
    if row is not None:
        row.rescan = {"state": "failed", "reason": reason}
        audit(session, "dataset.rescan_failed", name, time.time(), reason=reason)


def drop_unused(session: Session, name: str) -> list[Leftover]:
    """Forget earlier versions of a dataset of which there is no run, and that nobody packs now."""
    made = aliased(Dataset)
    packing = (made.origin_id == Dataset.id, made.state == DatasetState.PACKING.value)
    unused = delete(Dataset).where(
        _of(base_name(name)),
        ~exists().where(Run.dataset_id == Dataset.id),
        ~exists().where(*packing),
    )
    gone = session.execute(unused.returning(Dataset.index_path)).all()
    session.expire_all()
    return [Leftover(Path(path)) for (path,) in gone]
