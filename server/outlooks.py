"""What a run would come to, from what earlier runs have shown of the devices that live now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.batchfile import layout
from ddlp.core.image.arithmetic import same_arithmetic
from ddlp.core.messages import DeviceInfo, RunCreate
from ddlp.core.messages.outlook import ProngForecast, RunForecast
from ddlp.core.outlook import KnownDevice, Outlook, ProngOutlook, outlook_prongs
from ddlp.core.pipeline import ENGINE, Pipeline
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import CHOICES, STRATEGIES
from ddlp.core.settings import Settings
from ddlp.core.throughput import images_per_s
from ddlp.core.types import Prong, Provenance, Spending
from ddlp.server import devices, figures
from ddlp.server.models import Calibration, Dataset, Device, Run
from ddlp.server.run_checks import Checked, check
from ddlp.server.telemetry import TRAINER
from ddlp.server.windows import LIMITS, Windows

_HERE = "this dataset and pipeline"
_LOOKED_AT = 5
"""Runs that are looked at for it, the newest first."""


@dataclass(frozen=True)
class _Case:
    """A run that could be made, and the devices that would work for it."""

    body: RunCreate
    dataset: Dataset
    pipeline: Pipeline
    plan: RunPlan
    alive: list[DeviceInfo]


def forecast(
    session: Session, settings: Settings, raw: Mapping[str, Any], now: float
) -> RunForecast:
    """What the body of a `POST /runs` would come to; what is wrong with it is said, not raised."""
    alive = working(session, devices.list_all(session, settings, now))
    found = check(session, raw, alive)
    case = _case(found, alive)
    if case is None:
        return RunForecast(problems=found.problems)
    paces = known_devices(session, case.dataset, case.pipeline.hash, alive)
    trainer = trainer_rate(session, case.dataset, case.pipeline.hash)
    plan = case.plan
    outlook = Outlook(
        batches=plan.batches,
        images=plan.samples + plan.whole.repeated() - plan.whole.dropped(),
        epochs=plan.epochs or 1,
        prongs=outlook_prongs(paces, STRATEGIES[case.body.strategy].prongs),
        trainer_per_s=trainer.images_per_s * plan.world_size if trainer else None,
    )
    return _told(case, settings, outlook, trainer).model_copy(update={"problems": found.problems})


def working(session: Session, every: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The devices that are given work: they live, do not rest, and make the very bytes wanted."""
    resting = set(session.scalars(select(Device.name).where(Device.drained_at.is_not(None))))
    return [
        d for d in every if d.live and d.name not in resting and same_arithmetic(d.engine, ENGINE)
    ]


def _case(found: Checked, alive: list[DeviceInfo]) -> _Case | None:
    """What can be foretold."""
    body, dataset, pipeline, plan = found.body, found.dataset, found.pipeline, found.plan
    if body is None or dataset is None or pipeline is None or plan is None:
        return None
    return _Case(body, dataset, pipeline, plan, alive) if body.strategy in CHOICES else None


def _told(
    case: _Case, settings: Settings, outlook: Outlook, trainer: "TrainerRate | None"
) -> RunForecast:
    batch_bytes = layout(case.pipeline.batch_tensors(case.body.batch_size))[1]
    held = held_batches(case.body, settings, batch_bytes, case.alive)
    each_j = outlook.joules_per_image
    return RunForecast(
        problems=[],
        batches=outlook.batches,
        images=outlook.images,
        batch_bytes=batch_bytes,
        prongs=[_prong(outlook, prong, held[prong.prong], batch_bytes) for prong in outlook.prongs],
        images_per_s=outlook.images_per_s,
        made_per_s=outlook.made_per_s,
        trainer_per_s=outlook.trainer_per_s,
        trainer_from=trainer.run if trainer else None,
        meeting_point=outlook.meeting_point,
        epoch_s=outlook.epoch_s,
        run_s=outlook.run_s,
        joules=outlook.joules,
        joules_per_image=each_j,
        provenance=Provenance.UNAVAILABLE if each_j is None else Provenance.MODELLED,
        notes=notes(outlook, trainer),
    )


def _prong(outlook: Outlook, prong: ProngOutlook, held: int, batch_bytes: int) -> ProngForecast:
    return ProngForecast(
        prong=prong.prong,
        devices=[device.name for device in prong.devices],
        slots=prong.slots,
        emulated=any(device.emulated for device in prong.devices),
        images_per_s=prong.images_per_s if prong.devices else None,
        known_from=prong.known_from,
        images=outlook.images_of(prong),
        joules_per_image=prong.joules_per_image,
        provenance=prong.provenance,
        method=prong.method,
        held_batches=held,
        held_bytes=held * batch_bytes,
    )


def held_batches(
    body: RunCreate, settings: Settings, batch_bytes: int, alive: Sequence[DeviceInfo]
) -> dict[Prong, int]:
    """How many batches may lie unconsumed in the stores of each prong."""
    free: dict[Prong, int | None] = {}
    for prong in Prong:
        rooms = [d.room.free_bytes for d in alive if d.prong is prong]
        free[prong] = min((room for room in rooms if room is not None), default=None)
    draft = Run(**{name: getattr(body, name) for name in LIMITS})
    return Windows.of(settings, draft).stored(batch_bytes, free)


def known_devices(
    session: Session, dataset: Dataset, pipeline_hash: str, alive: Sequence[DeviceInfo]
) -> list[KnownDevice]:
    """The live devices with their paces: of this very work, or else of the same pipeline."""
    mine = Calibration.pipeline_hash == pipeline_hash
    rows = session.scalars(select(Calibration).where(mine).order_by(Calibration.updated_at.desc()))
    by_device: dict[str, list[Calibration]] = {}
    for row in rows:
        by_device.setdefault(row.device, []).append(row)
    found = []
    for device in alive:
        pace = _nearest(by_device.get(device.name, []), dataset)
        found.append(
            KnownDevice(
                name=device.name,
                prong=device.prong,
                slots=device.slots,
                power=device.power,
                emulated=device.emulated,
                sample_s=pace.sample_s if pace else None,
                known_from=_origin(session, pace, dataset) if pace else "",
            )
        )
    return found


def _nearest(rows: Sequence[Calibration], dataset: Dataset) -> Calibration | None:
    """The pace of the very dataset, of its samples in another form, or of the newest other one."""

    def distance(row: Calibration) -> int:
        if row.dataset_version != dataset.version:
            return 2
        return int(row.storage != (dataset.kind or ""))

    return min(rows, key=distance, default=None)


def _origin(session: Session, pace: Calibration, dataset: Dataset) -> str:
    """Where a pace was seen, in words."""
    same = pace.dataset_version == dataset.version
    if same and pace.storage == (dataset.kind or ""):
        return _HERE
    where = select(Run.dataset).where(
        Run.dataset_version == pace.dataset_version, Run.storage == pace.storage
    )
    name = session.scalar(where.order_by(Run.created_at.desc()).limit(1)) or "a dataset since gone"
    return f"other runs of this pipeline: {name} ({pace.storage or 'unknown form'})"


@dataclass(frozen=True)
class TrainerRate:
    """Images a second that one rank took while it did not wait, and in which run."""

    images_per_s: float
    run: str


def trainer_rate(session: Session, dataset: Dataset, pipeline_hash: str) -> TrainerRate | None:
    """How fast the last trainer of a dataset and pipeline was by itself."""
    query = (
        select(Run)
        .where(
            Run.dataset_version == dataset.version,
            Run.pipeline_hash == pipeline_hash,
            Run.started_at.is_not(None),
        )
        .order_by(Run.created_at.desc())
        .limit(_LOOKED_AT)
    )
    rows = list(session.scalars(query))
    totals = figures.totals(session, [row.id for row in rows])
    for row in rows:
        spent = totals[row.id][TRAINER].bucket
        rate = images_per_s(spent.images, spent.spent_s[Spending.TRAINING])
        if rate:
            return TrainerRate(rate, row.name)
    return None


def notes(outlook: Outlook, trainer: TrainerRate | None) -> list[str]:
    """What the figures rest on."""
    return [*_pace_notes(outlook), *_trainer_notes(outlook, trainer), *_energy_notes(outlook)]


def _pace_notes(outlook: Outlook) -> list[str]:
    found = []
    unknown = [p for p in outlook.prongs if p.devices and p.images_per_s is None]
    if unknown:
        whose = " and ".join(prong.prong.value.upper() for prong in unknown)
        found.append(
            f"{whose}: not known yet: no device has made enough batches of this pipeline; "
            "the first run will tell."
        )
    for prong in outlook.prongs:
        side = prong.prong.value.upper()
        if not prong.devices:
            alone = len(outlook.prongs) == 1
            rest = "the run would wait for one" if alone else "the other prong makes its share"
            found.append(f"No device of the {side} prong lives: {rest}.")
        elif prong.images_per_s is not None and prong.known_from != [_HERE]:
            found.append(f"{side}: from {'; '.join(prong.known_from)}.")
    return found


def _trainer_notes(outlook: Outlook, trainer: TrainerRate | None) -> list[str]:
    if outlook.made_per_s is None:
        return []
    if trainer is None:
        return ["It assumes that the trainer keeps up: no run of this dataset and pipeline tells."]
    if outlook.limited_by_trainer:
        return [f"The trainer is the limit, if it is as fast as in run {trainer.run}."]
    return [f"The trainer keeps up, if it is as fast as in run {trainer.run}."]


def _energy_notes(outlook: Outlook) -> list[str]:
    if outlook.joules_per_image is None:
        return []
    return ["Joules are those of what makes batches; memory and accelerator are not foretold."]
