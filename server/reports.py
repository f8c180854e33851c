"""Reports: where every second and every joule of a run went, by device, stage and epoch."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.messages.reports import (
    DeviceReport,
    EpochReport,
    HostMeterInfo,
    Joules,
    PartReport,
    RunReport,
    StallInfo,
)
from ddlp.core.stalls import Circumstances, limit, shares
from ddlp.core.types import Provenance, Spending, Stage
from ddlp.server import energy, figures
from ddlp.server.figures import APART, PRONGS, Total, bucket_of, known_joules
from ddlp.server.models import Epoch, Run, Tally
from ddlp.server.remainder import left_over
from ddlp.server.telemetry import TRAINER, WORK_STAGES, Bucket

_EPOCHS = 100

Found = dict[tuple[str, str], Total]
"""What was counted, by source and device."""


def stall(spent_s: Mapping[Spending, float], known: Circumstances) -> StallInfo:
    """How the trainer's seconds were spent, with the sentence that names the limit."""
    found = limit(spent_s, known)
    return StallInfo(
        spent_s=dict(spent_s),
        shares=shares(spent_s),
        limited_by=found.by,
        sentence=found.sentence,
    )


def report(session: Session, run: Run, known: Circumstances) -> RunReport:
    """All that a run's tallies tell."""
    whole: Found = defaultdict(Total)
    epochs: dict[int, Found] = defaultdict(lambda: defaultdict(Total))
    for row in session.scalars(select(Tally).where(Tally.run_id == run.id)):
        bucket = bucket_of(row)
        whole[row.source, row.device].add(bucket, row.first_at, row.last_at)
        if row.epoch >= 0:
            epochs[row.epoch][row.source, row.device].add(bucket, row.first_at, row.last_at)
    times = _epoch_times(session, run)
    return RunReport(
        id=run.id,
        run=run.name,
        state=run.state,
        samples_left=left_over(session, run),
        conditions=conditions(run),
        whole=PartReport.model_validate(_part(whole, known, _lasted(run.started_at, run.ended_at))),
        epochs=[
            EpochReport.model_validate(
                {"epoch": number, **_part(epochs[number], known, times.get(number))}
            )
            for number in sorted(epochs, reverse=True)[:_EPOCHS]
        ],
    )


def devices(session: Session, run: Run) -> list[DeviceReport]:
    """What each device did for a run, without its epochs."""
    return _devices(figures.by_device(session, run.id))


def _devices(found: Found) -> list[DeviceReport]:
    return [
        _device(source, device, total)
        for (source, device), total in sorted(found.items())
        if source != TRAINER
    ]


def _epoch_times(session: Session, run: Run) -> dict[int, float | None]:
    query = select(Epoch.number, Epoch.started_at, Epoch.ended_at).where(Epoch.run_id == run.id)
    return {
        int(number): _lasted(started_at, ended_at)
        for number, started_at, ended_at in session.execute(query)
    }


def _lasted(started_at: float | None, ended_at: float | None) -> float | None:
    return None if started_at is None else (ended_at or time.time()) - started_at


def conditions(run: Run) -> dict[str, str]:
    """What decides a run, in words; the name and the seed are not part of it."""
    window = "" if run.reorder_window is None else f", window {run.reorder_window}"
    return {
        "dataset": f"{run.dataset} ({run.dataset_version[:12]})",
        "storage form": run.storage or "not known",
        "pipeline": f"{run.pipeline} ({run.pipeline_hash[:12]})",
        "strategy": f"{run.strategy}{window}",
        "batch size": str(run.batch_size),
        "epochs": str(run.epochs),
        "ranks": str(run.world_size),
        "engine": run.engines or run.engine,
    }


def figures_of(found: RunReport) -> dict[str, float | None]:
    """The figures of a run that are compared; what is not known is None."""
    whole = found.whole
    flat: dict[str, float | None] = {
        "images_per_s": whole.images_per_s,
        "seconds": whole.seconds,
        "wait_share": None if not whole.stall.shares else 1 - whole.stall.shares[Spending.TRAINING],
        "joules_per_image": whole.joules_per_image,
        "cpu_s_per_1000_images": whole.cpu_s_per_1000_images,
        "memory_byte_s_per_1000_images": whole.memory_byte_s_per_1000_images,
    }
    for prong in PRONGS:
        images = sum(entry.images for entry in whole.devices if entry.source == prong)
        flat[f"{prong}_share_of_images"] = images / whole.images if whole.images else None
    for what in Spending:
        flat[f"{what}_share"] = whole.stall.shares.get(what)
    return flat


def hosts(session: Session) -> list[HostMeterInfo]:
    """What the meters of hosts have counted, and what became of it."""
    names = [name for name in HostMeterInfo.model_fields if name != "provenance"]
    return [
        HostMeterInfo(
            **{name: getattr(row, name) for name in names}, provenance=Provenance(row.provenance)
        )
        for row in energy.hosts(session)
    ]


def _part(found: Found, known: Circumstances, seconds: float | None) -> dict[str, object]:
    makers = [total for (source, _), total in found.items() if source in PRONGS]
    trainer = _trainer(found)
    images = sum(total.images for total in makers)
    idle = _sum_known(total for (source, _), total in found.items() if source == APART)
    return {
        "images": images,
        "delivered": trainer.images,
        "seconds": seconds,
        "measured_s": trainer.bucket.measured_s,
        "images_per_s": trainer.throughput,
        "stall": stall(trainer.bucket.spent_s, known),
        "devices": _devices(found),
        "cpu_s_per_1000_images": _per_1000(makers, images, "cpu_s"),
        "memory_byte_s_per_1000_images": _per_1000(makers, images, "memory_byte_s"),
        **_joules_per_image(found, images),
        "idle_joules": idle or None,
    }


def _trainer(found: Found) -> Total:
    """All that trainers did, whichever prong made what they received."""
    whole = Total()
    for (source, _), total in found.items():
        if source == TRAINER:
            whole.add(total.bucket, total.first_at, total.last_at)
    return whole


def _device(source: str, device: str, total: Total) -> DeviceReport:
    bucket = total.bucket
    return DeviceReport(
        source=source,
        device=device,
        emulated=bucket.emulated,
        batches=bucket.batches,
        images=bucket.images,
        busy_s=bucket.busy_s,
        cpu_s=bucket.cpu_s,
        stages_s={stage: s for stage, s in bucket.stages_s.items() if s > 0},
        fetched_bytes=bucket.fetched_bytes,
        written_bytes=bucket.nbytes,
        peak_bytes=bucket.peak_bytes,
        memory_byte_s=bucket.memory_byte_s,
        energy=_energy(source, total),
    )


def _energy(source: str, total: Total) -> list[Joules]:
    bucket = total.bucket
    known = known_joules(bucket)
    if not known:
        why = figures.why_unknown(bucket)
        return [Joules(joules=None, provenance=Provenance.UNAVAILABLE, method=why)]
    return [
        Joules(
            joules=joules,
            provenance=how,
            method=figures.method(source, how),
            period_s=float(total.span_s),
            per_image=joules / bucket.images if bucket.images else None,
            by_stage=_by_stage(bucket, joules),
        )
        for how, joules in known.items()
    ]


def _by_stage(bucket: Bucket, joules: float) -> dict[Stage, float]:
    """Joules of a device divided by how long each stage of its work took."""
    seconds = {stage: bucket.stages_s[stage] for stage in WORK_STAGES}
    whole_s = sum(seconds.values())
    return {stage: joules * s / whole_s for stage, s in seconds.items()} if whole_s > 0 else {}


def _per_1000(makers: list[Total], images: int, name: str) -> float | None:
    total: float = sum(getattr(maker.bucket, name) for maker in makers)
    return 1000 * total / images if images and total > 0 else None


def _sum_known(totals: Iterable[Total]) -> float:
    return sum(sum(known_joules(total.bucket).values()) for total in totals)


def _joules_per_image(found: Found, images: int) -> dict[str, object]:
    """All that worked together; unknown as soon as one that made something is unknown."""
    working = {key: total for key, total in found.items() if key[0] not in (APART, TRAINER)}
    known = {key: known_joules(total.bucket) for key, total in working.items()}
    unknown = [key for key, total in working.items() if total.images and not known[key]]
    if unknown or not images:
        return {"joules_per_image": None, "provenance": [Provenance.UNAVAILABLE]}
    joules = sum(sum(amounts.values()) for amounts in known.values())
    ways = {how for amounts in known.values() for how in amounts}
    return {"joules_per_image": joules / images, "provenance": sorted(ways)}
