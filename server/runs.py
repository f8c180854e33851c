"""Creates runs and tells how they stand."""

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, InvalidInput, NotFound
from ddlp.core.lifecycle import ACTIVE, TERMINAL
from ddlp.core.messages import (
    DeviceInfo,
    EpochInfo,
    ReadInfo,
    ReplayCreate,
    RunCreate,
    RunInfo,
    StrategyChange,
    WorkSpec,
)
from ddlp.core.messages.reports import RunReport
from ddlp.core.messages.timeline import TimelineInfo
from ddlp.core.pipeline import ENGINE
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import STRATEGIES, Replay, strategy
from ddlp.core.schedule.limits import usual_bad_share
from ddlp.core.stalls import Circumstances
from ddlp.core.store import room
from ddlp.core.throughput import images_per_s
from ddlp.core.types import BadPolicy, DeviceKind, EpochState, Prong, RunState, TailPolicy
from ddlp.server import certificates, datasets, figures, pipelines, quarantine, reports, run_names
from ddlp.server.board import ActiveRun, run_plan
from ddlp.server.database import refers_to_nothing
from ddlp.server.ledger import audit, is_begun, segments_of
from ddlp.server.models import Dataset, Device, Epoch, Run, RunTrace
from ddlp.server.remainder import left_over
from ddlp.server.telemetry import TRAINER
from ddlp.server.timeline import unpack
from ddlp.server.versions import base_name, cure
from ddlp.server.windows import batch_bytes

_COPIED = (
    "dataset_id",
    "dataset",
    "dataset_version",
    "storage",
    "pipeline",
    "pipeline_hash",
    "transforms",
    "samples",
    "batch_size",
    "epochs",
    "seed",
    "calibration",
    "world_size",
    "fixed_ranks",
    "reshuffle",
    "tail",
    "on_bad",
    "max_bad_share",
    "cpu_window",
    "cpu_store_bytes",
    "csd_store_bytes",
)
"""What a run that is made like another one shares with it."""


def create(session: Session, body: RunCreate, clone_of: str | None = None) -> Run:
    """Check and remember a run; `clone_of` is the one that its settings come from."""
    strategy(body.strategy, body.reorder_window)
    dataset = datasets.find_ready(session, body.dataset)
    pipeline = pipelines.find(session, body.pipeline)
    check_batch_size(dataset, body.batch_size)
    reshuffle = pipeline.draws if body.reshuffle is None else body.reshuffle
    share = body.max_bad_share
    share = usual_bad_share(dataset.samples) if share is None else share
    now = time.time()
    row = Run(
        name=body.name or _free_name(session, base_name(dataset.name)),
        dataset_id=dataset.id,
        dataset=base_name(dataset.name),
        dataset_version=dataset.version,
        storage=dataset.kind,
        pipeline=body.pipeline,
        pipeline_hash=pipeline.hash,
        transforms=pipeline.spec.transforms,
        engine=ENGINE,
        samples=dataset.samples,
        batch_size=body.batch_size,
        epochs=body.epochs,
        seed=body.seed,
        strategy=body.strategy,
        reorder_window=body.reorder_window,
        calibration=body.calibration,
        world_size=body.world_size or 1,
        fixed_ranks=body.world_size is not None,
        reshuffle=reshuffle,
        tail=body.tail.value,
        on_bad=body.on_bad.value,
        max_bad_share=share,
        cpu_window=body.cpu_window,
        cpu_store_bytes=body.cpu_store_bytes,
        csd_store_bytes=body.csd_store_bytes,
        state=RunState.CREATED.value,
        created_at=now,
    )
    check_world(run_plan(row))
    add(session, row)
    source = {} if clone_of is None else {"clone_of": clone_of}
    audit(session, "run.create", row.name, now, **body.model_dump(mode="json"), **source)
    return row


def create_replay(session: Session, ref: str, body: ReplayCreate) -> Run:
    """A run that follows the recorded order of another one."""
    source = find(session, ref)
    recorded = certificates.orders(session, source)
    wanted = len(recorded) if source.epochs is None else source.epochs
    if not recorded or len(recorded) < wanted:
        raise Conflict(
            f"run {source.name} is {source.state} with {len(recorded)} of {source.epochs} epochs "
            "complete; only one whose epochs are all complete can be replayed"
        )
    name = body.name or _free_name(session, source.dataset)
    row = made_like(source, name=name, strategy=Replay.name, replay_of=source.id, epochs=wanted)
    add(session, row)
    audit(session, "run.replay", row.name, row.created_at, of=source.name)
    return row


def made_like(source: Run, **fields: Any) -> Run:
    """A run like another one, as far as nothing else is said."""
    copied = {name: getattr(source, name) for name in _COPIED}
    new = {"engine": ENGINE, "state": RunState.CREATED.value, "created_at": time.time()}
    return Run(**{**copied, **new, **fields})


def add(session: Session, row: Run) -> None:
    """Remember a run."""
    try:
        session.add(row)
        session.flush()
    except IntegrityError as error:
        if refers_to_nothing(error):
            raise NotFound(
                f"dataset {row.dataset} was removed meanwhile; see: ddlp dataset list"
            ) from error
        raise Conflict(f"there is a run {row.name} already; choose another name") from error


def check_room(run: Run, devices: Sequence[DeviceInfo]) -> None:
    """Refuse a run that none of the devices that live has room for."""
    nbytes = batch_bytes(run)
    prongs = STRATEGIES[run.strategy].prongs
    mine = [device for device in devices if device.live and device.prong in prongs]
    problems = [
        room.check_room(f"the store {d.store} of {d.name}", d.slots, nbytes, d.room.free_bytes)
        for d in mine
    ]
    if problems and all(problems):
        raise Conflict("; ".join(problem for problem in problems if problem))


def switch(run: ActiveRun, session: Session, body: StrategyChange, now: float) -> None:
    """Go on with another strategy; devices of prongs that it does not use are let finish."""
    run.schedule.switch(strategy(body.strategy, body.reorder_window))
    row = session.get_one(Run, run.id)
    row.strategy, row.reorder_window, row.replay_of = body.strategy, body.reorder_window, None
    audit(session, "run.strategy", run.name, now, **body.model_dump(mode="json"))


def find(session: Session, ref: str) -> Run:
    """A run by its name or its id."""
    row = session.scalar(select(Run).where(Run.name == ref))
    if row is None and (run_id := _uuid(ref)) is not None:
        row = session.get(Run, run_id)
    if row is None:
        raise NotFound(f"there is no run {ref}; see: ddlp run list")
    return row


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
        cure=cure(dataset.name),
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
    reads = figures.reads(session, ids)
    received = figures.measured_images(session, ids)
    found = [
        _info(
            row, totals[row.id], received[row.id], bad.get(row.id, 0), reads.get(row.id, [])
        ).model_copy(update={"samples_left": left_over(session, row)})
        for row in rows
    ]
    if not any(info.state in ACTIVE for info in found):
        return found
    waiting = _emulated_prongs(session)
    return [_foreseen(info, waiting) if info.state in ACTIVE else info for info in found]


def _by_prong(totals: figures.Totals, received: Mapping[str, int]) -> dict[str, float | None]:
    """The throughput by prong; None for one that made nothing."""
    measured_s = totals[TRAINER].bucket.measured_s
    return {
        prong: images_per_s(received.get(prong, 0), measured_s) if totals[prong].images else None
        for prong in figures.PRONGS
    }


def _emulated_prongs(session: Session) -> set[str]:
    """Prongs that an emulated device may work for."""
    kinds = [kind.value for kind in DeviceKind if kind.emulated]
    return set(session.scalars(select(Device.prong).where(Device.kind.in_(kinds)).distinct()))


def _foreseen(info: RunInfo, emulated: set[str]) -> RunInfo:
    """Mark what emulated devices are about to make, before the first of it is counted."""
    used = {prong.value for prong in STRATEGIES[info.strategy].prongs}
    return info.model_copy(update={"emulated": sorted(emulated & used | set(info.emulated))})


def _info(
    run: Run,
    totals: figures.Totals,
    received: Mapping[str, int],
    bad_samples: int,
    reads: list[ReadInfo],
) -> RunInfo:
    trainer = totals[TRAINER]
    return RunInfo(
        id=run.id,
        name=run.name,
        dataset=run.dataset,
        dataset_version=run.dataset_version,
        storage=run.storage,
        pipeline=run.pipeline,
        pipeline_hash=run.pipeline_hash,
        engine=run.engines or f"none yet (this server: {run.engine})",
        batch_size=run.batch_size,
        epochs=run.epochs,
        seed=run.seed,
        strategy=run.strategy,
        reorder_window=run.reorder_window,
        calibration=run.calibration,
        replay_of=run.replay_of,
        retry_of=run.retry_of,
        world_size=run.world_size,
        fixed_ranks=run.fixed_ranks,
        reshuffle=run.reshuffle,
        tail=TailPolicy(run.tail),
        on_bad=BadPolicy(run.on_bad),
        max_bad_share=run.max_bad_share,
        bad_samples=bad_samples,
        state=RunState(run.state),
        reason=run.reason,
        samples=run.samples,
        batches=run_plan(run).batches,
        images={prong: totals[prong].images for prong in figures.PRONGS},
        delivered=trainer.images,
        delivered_images_per_s=trainer.throughput,
        measured_s=trainer.bucket.measured_s,
        images_per_s=_by_prong(totals, received),
        wait_share=trainer.wait_share,
        stall=reports.stall(trainer.bucket.spent_s, circumstances(run, totals)),
        energy=figures.energy(totals),
        emulated=[prong for prong in figures.PRONGS if totals[prong].emulated],
        reads=reads,
        held_up=run.held_up,
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        details_removed_at=run.details_removed_at,
    )


def report(session: Session, run: Run) -> RunReport:
    """Where every second and every joule of a run went."""
    totals = figures.totals(session, [run.id])[run.id]
    return reports.report(session, run, circumstances(run, totals))


def kept_timeline(session: Session, run: Run, seconds: float) -> TimelineInfo:
    """The last seconds of a run that is over."""
    row = session.get(RunTrace, run.id)
    if row is None:
        return TimelineInfo(now=run.ended_at or time.time(), lanes=[], spans=[])
    found = unpack(row.body)
    since = found.now - seconds
    return found.model_copy(update={"spans": [s for s in found.spans if s.end_at >= since]})


def circumstances(run: Run, totals: figures.Totals) -> Circumstances:
    """What is known of a run beside how its trainer spent its time."""
    return Circumstances(
        strategy=run.strategy,
        storage=run.storage,
        has_csd=totals[Prong.CSD.value].images > 0,
        paused=run.state == RunState.PAUSED.value,
        over=RunState(run.state) in TERMINAL,
        devices=frozenset(kept["held"]["device"] for kept in run.trainers.values()),
    )


def check_batch_size(dataset: Dataset, batch_size: int) -> None:
    """Refuse batches that a dataset cannot fill."""
    if batch_size > dataset.samples:
        raise InvalidInput(
            f"batch size {batch_size} is larger than dataset {dataset.name} "
            f"({dataset.samples} samples); choose at most {dataset.samples}"
        )


def check_world(plan: RunPlan) -> None:
    """Refuse more ranks than samples or whole batches can be given to."""
    if plan.world_size > plan.samples:
        raise InvalidInput(f"{plan.world_size} ranks cannot share {plan.samples} samples")
    if not plan.batches:
        raise InvalidInput(
            f"{plan.samples} samples do not fill one batch of {plan.batch_size} for each of "
            f"{plan.world_size} ranks; use a smaller batch size, or tail short or pad"
        )


def _free_name(session: Session, dataset: str) -> str:
    count = session.scalar(select(func.count()).select_from(Run)) or 0
    return run_names.numbered(session, dataset, count + 1)


def _epoch_info(row: Epoch) -> EpochInfo:
    segments = segments_of(row)
    last = segments[-1]
    before = last.position - last.first
    taken_over = segments[0].position
    return EpochInfo(
        number=row.number,
        state=EpochState(row.state),
        batches=row.batches,
        head=row.head + before,
        tail=row.tail + before + max(0, last.last - row.short),
        split=row.settled.get("split"),
        meeting_point=row.head + before if row.head >= row.tail else None,
        made={Prong.CPU.value: row.made_cpu, Prong.CSD.value: row.made_csd},
        consumed=row.consumed,
        begun=is_begun(row.batches, row.consumed, row.dealt_head, row.dealt_tail),
        taken_over=taken_over,
        delivered={
            Prong.CPU.value: row.consumed - taken_over - row.consumed_csd,
            Prong.CSD.value: row.consumed_csd,
        },
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
