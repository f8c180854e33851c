"""Packed datasets: their rows in the database, from the wish for one to its last shard."""

import time
import uuid
from pathlib import Path

from sqlalchemy import inspect, select
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, InvalidInput, NotFound
from ddlp.core.messages import PackCreate, PackingInfo, PackSpec
from ddlp.core.settings import Settings
from ddlp.core.types import DatasetState
from ddlp.server import datasets, pack_folders, roots
from ddlp.server.forecasts import Expected
from ddlp.server.ledger import audit
from ddlp.server.models import Dataset
from ddlp.server.pack_plan import Made, PackPlan, plan_of
from ddlp.server.shards import Shards

PACKED = "packed"
_PIXELS = "array"
_SUFFIX = "-packed"
_NAME_LENGTH = 64


def draft(session: Session, settings: Settings, origin: str, body: PackCreate) -> Dataset:
    """The row that a wish comes to, not remembered yet; one that was made of it before is that.

    Whatever can be wrong with the wish is said here.
    """
    source = datasets.find_ready(session, origin)
    if source.kind == PACKED and not body.lossy:
        raise InvalidInput(f"dataset {origin} is packed already; use it as it is")
    if source.kind == _PIXELS:
        raise InvalidInput(
            f"dataset {origin} holds raw pixels, which need no decoding; packing is for encoded "
            "images"
        )
    name = body.name or source.name.replace("@", "-")[: _NAME_LENGTH - len(_SUFFIX)] + _SUFFIX
    folders = roots.allowed(session, settings)
    folder = pack_folders.choose(settings, folders, name, body.into)
    plan = PackPlan(
        on=body.on,
        choice=body.choice,
        per_shard=settings.pack_shard_samples,
        samples=source.samples,
        origin_version=source.version,
        origin_bytes=source.total_bytes,
        own=folder == pack_folders.own_root(settings) / name,
    )
    known = session.scalar(select(Dataset).where(Dataset.name == name))
    if known is not None:
        _check_same(known, source, plan, folder if body.into else None)
        return known
    pack_folders.check_apart(session, folder)
    pack_folders.check_free(folder, plan.shards, own=plan.own)
    dataset_id = uuid.uuid4()
    return Dataset(
        id=dataset_id,
        name=name,
        uri=str(folder),
        check="quick",
        state=DatasetState.PACKING.value,
        kind=PACKED,
        index_path=str(settings.home.absolute() / "indexes" / f"{dataset_id}.idx"),
        origin=source.name,
        origin_id=source.id,
        packing=plan.model_dump(mode="json"),
        created_at=time.time(),
    )


def is_to_begin(row: Dataset) -> bool:
    """Whether a draft is for work that is yet to be begun: a new one, or one that failed."""
    return inspect(row).transient or row.state == DatasetState.FAILED.value


def _check_same(known: Dataset, source: Dataset, plan: PackPlan, folder: Path | None) -> None:
    """A name that is taken is no problem if it stands for what is wanted."""
    was = PackPlan.model_validate(known.packing) if known.packing is not None else None
    same_place = folder is None or str(folder) == known.uri
    failed = known.state == DatasetState.FAILED.value
    same = was is not None and was.same_outcome(plan, whatever_is_bad=failed)
    if was is None or known.origin_id != source.id or not same or not same_place:
        raise Conflict(
            f"there is a dataset {known.name} already, which is not this one packed like this; "
            "choose another --name"
        )
    if known.state == DatasetState.PACKING.value and was.on is not plan.on:
        raise Conflict(
            f"dataset {known.name} is being packed on {was.on} already; wait for that, or remove it"
        )


def remember(session: Session, row: Dataset, body: PackCreate, expected: Expected) -> bool:
    """Begin with a row that is new, or again with one that failed; whether there is work to do."""
    if not is_to_begin(row):
        return False
    origin = select(Dataset.id).where(Dataset.id == row.origin_id).with_for_update()
    if session.execute(origin).first() is None:
        raise NotFound(f"dataset {row.origin} was removed meanwhile; see: ddlp dataset list")
    anew = {
        "on": body.on,
        "choice": body.choice,
        "made": None,
        "forecast": expected.forecast,
        "no_forecast": expected.problem,
    }
    row.packing = plan_of(row).model_copy(update=anew).model_dump(mode="json")
    row.state, row.reason = DatasetState.PACKING.value, None
    session.add(row)
    session.flush()
    audit(session, "dataset.pack", row.name, time.time(), origin=row.origin, on=body.on.value)
    return True


def note_emulated(session: Session, dataset_id: uuid.UUID, emulated: bool) -> None:
    """Devices that are emulated or not have begun with it."""
    row = session.get(Dataset, dataset_id)
    if row is not None:
        noted = plan_of(row).model_copy(update={"emulated": emulated})
        row.packing = noted.model_dump(mode="json")


def hand_over(session: Session, dataset_id: uuid.UUID, made: Made) -> Dataset | None:
    """All shards are there: what is left is to scan them; None if it was removed meanwhile."""
    row = session.get(Dataset, dataset_id)
    if row is None or row.state != DatasetState.PACKING.value:
        return None
    row.state = DatasetState.SCANNING.value
    row.packing = plan_of(row).model_copy(update={"made": made}).model_dump(mode="json")
    audit(session, "dataset.packed", row.name, time.time(), **made.model_dump())
    return row


def spec_of(session: Session, row: Dataset) -> PackSpec:
    """What a worker must know."""
    origin = session.get(Dataset, row.origin_id) if row.origin_id else None
    if origin is None:
        raise NotFound(f"dataset {row.origin}, of which {row.name} is made, was removed")
    plan = plan_of(row)
    return PackSpec(
        packing=row.id,
        index_path=Path(origin.index_path),
        dataset_version=plan.origin_version,
        into=Path(row.uri),
        per_shard=plan.per_shard,
        options=plan.choice,
    )


def info(
    row: Dataset, shards: Shards | None, waiting: str | None, now: float
) -> PackingInfo | None:
    """How a dataset was packed, or how far that has come; None for one that was not."""
    if row.packing is None:
        return None
    plan = plan_of(row)
    made = plan.made or Made.of(list(shards.done.values()) if shards else [])
    samples_done = shards.samples_done if shards else plan.samples if plan.made else 0
    whole = sum(shards.counts[n] for n in shards.done) if shards else samples_done
    rate = shards.images_per_s(now) if shards else None
    origin_bytes = plan.origin_bytes * whole / max(1, plan.samples)
    return PackingInfo(
        origin=row.origin or "",
        on=plan.on,
        options=plan.choice,
        lossy=plan.choice.lossy,
        shards=plan.shards,
        shards_done=len(shards.done) if shards else plan.shards if plan.made else 0,
        samples=plan.samples,
        samples_done=samples_done,
        **made.model_dump(),
        origin_bytes=plan.origin_bytes,
        ratio=made.bytes / origin_bytes if made.bytes and origin_bytes else None,
        images_per_s=rate,
        seconds_left=(plan.samples - samples_done) / rate if rate else None,
        waiting=waiting,
        emulated=plan.emulated,
        forecast=plan.forecast,
        no_forecast=plan.no_forecast,
    )
