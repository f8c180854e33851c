"""Creates runs and tells how they stand."""

import time
import uuid
from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, InvalidInput, NotFound
from ddlp.core.messages import EpochInfo, RunCreate, RunInfo, WorkSpec
from ddlp.core.pipeline import ENGINE
from ddlp.core.schedule import strategy
from ddlp.core.types import BadPolicy, EpochState, Prong, RunState
from ddlp.server import datasets, figures, pipelines, quarantine
from ddlp.server.board import run_plan
from ddlp.server.database import refers_to_nothing
from ddlp.server.ledger import audit
from ddlp.server.models import Dataset, Epoch, Run


def create(session: Session, body: RunCreate) -> Run:
    """Check and remember a run."""
    strategy(body.strategy)
    dataset = datasets.find_ready(session, body.dataset)
    pipeline = pipelines.find(session, body.pipeline)
    if body.batch_size > dataset.samples:
        raise InvalidInput(
            f"batch size {body.batch_size} is larger than dataset {dataset.name} "
            f"({dataset.samples} samples); choose at most {dataset.samples}"
        )
    now = time.time()
    row = Run(
        name=body.name or _free_name(session, body.dataset),
        dataset_id=dataset.id,
        dataset=dataset.name,
        dataset_version=dataset.version,
        pipeline=body.pipeline,
        pipeline_hash=pipeline.hash,
        transforms=pipeline.spec.transforms,
        engine=ENGINE,
        samples=dataset.samples,
        batch_size=body.batch_size,
        epochs=body.epochs,
        seed=body.seed,
        strategy=body.strategy,
        world_size=body.world_size,
        on_bad=body.on_bad.value,
        max_bad_share=body.max_bad_share,
        state=RunState.CREATED.value,
        created_at=now,
    )
    _check_world(row)
    try:
        session.add(row)
        session.flush()
    except IntegrityError as error:
        if refers_to_nothing(error):
            raise NotFound(
                f"dataset {row.dataset} was removed meanwhile; see: ddlp dataset list"
            ) from error
        raise Conflict(f"there is a run {row.name} already; choose another name") from error
    audit(session, "run.create", row.name, now, **body.model_dump(mode="json"))
    return row


def find(session: Session, ref: str) -> Run:
    """A run by its name or its id."""
    row = session.scalar(select(Run).where(Run.name == ref))
    if row is None and (run_id := _uuid(ref)) is not None:
        row = session.get(Run, run_id)
    if row is None:
        raise NotFound(f"there is no run {ref}; see: ddlp run list")
    return row


def page(session: Session, before: float | None, limit: int) -> list[Run]:
    """Runs, the newest first, created before a time."""
    query = select(Run).order_by(Run.created_at.desc()).limit(limit)
    return list(session.scalars(query if before is None else query.where(Run.created_at < before)))


def work_spec(session: Session, run: Run) -> WorkSpec:
    """What a worker must know of a run."""
    dataset = session.scalar(select(Dataset).where(Dataset.id == run.dataset_id))
    if dataset is None:
        raise NotFound(f"dataset {run.dataset} of run {run.name} was removed")
    return WorkSpec(
        run=run.id,
        index_path=dataset.index_path,
        dataset_version=run.dataset_version,
        transforms=run.transforms,
        pipeline_hash=run.pipeline_hash,
        plan=run_plan(run),
        on_bad=BadPolicy(run.on_bad),
    )


def epochs(session: Session, run: Run, last: int | None = None) -> list[EpochInfo]:
    """The epochs of a run that were opened, or the last of them."""
    newest = select(Epoch).where(Epoch.run_id == run.id).order_by(Epoch.number.desc()).limit(last)
    return [_epoch_info(row) for row in reversed(session.scalars(newest).all())]


def consumed(session: Session, run: Run) -> int:
    """Batches of all epochs that were consumed."""
    query = select(func.sum(Epoch.consumed)).where(Epoch.run_id == run.id)
    return int(session.scalar(query) or 0)


def info(session: Session, run: Run) -> RunInfo:
    """How a run stands."""
    return infos(session, [run])[0]


def infos(session: Session, rows: Sequence[Run]) -> list[RunInfo]:
    """How runs stand."""
    ids = [row.id for row in rows]
    totals = figures.totals(session, ids)
    bad = quarantine.counts(session, ids)
    return [_info(row, totals[row.id], bad.get(row.id, 0)) for row in rows]


def _info(run: Run, totals: figures.Totals, bad_samples: int) -> RunInfo:
    return RunInfo(
        id=run.id,
        name=run.name,
        dataset=run.dataset,
        dataset_version=run.dataset_version,
        pipeline=run.pipeline,
        pipeline_hash=run.pipeline_hash,
        engine=run.engines or f"none yet (this server: {run.engine})",
        batch_size=run.batch_size,
        epochs=run.epochs,
        seed=run.seed,
        strategy=run.strategy,
        world_size=run.world_size,
        on_bad=BadPolicy(run.on_bad),
        max_bad_share=run.max_bad_share,
        bad_samples=bad_samples,
        state=RunState(run.state),
        reason=run.reason,
        samples=run.samples,
        batches=run_plan(run).batches,
        images={prong: totals[prong].images for prong in figures.PRONGS},
        images_per_s={prong: totals[prong].images_per_s for prong in figures.PRONGS},
        wait_share=totals["trainer"].wait_share,
        energy=[figures.energy(prong, totals[prong]) for prong in figures.PRONGS],
        emulated=[prong for prong in figures.PRONGS if totals[prong].emulated],
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
    )


def _check_world(run: Run) -> None:
    batches = run_plan(run).batches
    if run.world_size > batches:
        raise InvalidInput(
            f"{run.world_size} ranks cannot share {batches} batches; use a smaller batch size"
        )


def _free_name(session: Session, dataset: str) -> str:
    count = session.scalar(select(func.count()).select_from(Run)) or 0
    while session.scalar(select(Run.id).where(Run.name == f"{dataset[:48]}-{count + 1}")):
        count += 1
    return f"{dataset[:48]}-{count + 1}"


def _epoch_info(row: Epoch) -> EpochInfo:
    return EpochInfo(
        number=row.number,
        state=EpochState(row.state),
        batches=row.batches,
        head=row.head,
        tail=row.tail,
        split=row.split,
        meeting_point=row.head if row.head >= row.tail else None,
        made={Prong.CPU.value: row.made_cpu, Prong.CSD.value: row.made_csd},
        consumed=row.consumed,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
