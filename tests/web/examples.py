"""Runs, epochs and snapshots that tests of the pages begin with, each changed where it matters."""

import uuid
from typing import Any

from ddlp.core.messages import EnergyInfo, EpochInfo, LimitsInfo, RunInfo
from ddlp.core.messages.reports import DeviceReport, Joules, StallInfo
from ddlp.core.types import BadPolicy, EpochState, Prong, Provenance, RunState, TailPolicy
from ddlp.server.batch_owners import NOTHING, BatchOwners, Shade, Stretch
from ddlp.server.snapshot import Front, Snapshot
from ddlp.web.run_views import RunFacts, RunView, run_view

NONE = Front(taken=0, delivered=0, ready=0, leased=0, images_per_s=0.0)


LIMITS = LimitsInfo(
    cpu_window=16,
    cpu_store_bytes=1_500_000_000,
    csd_store_bytes=4_000_000_000,
    own=[],
    batch_bytes=38_500_000,
    batches={"cpu": 16, "csd": 103},
)


def run_info(**changes: Any) -> RunInfo:
    """Two epochs of 100 batches of 10 samples, with an emulated CSD."""
    values: dict[str, Any] = {
        "id": uuid.UUID(int=1),
        "name": "r50",
        "dataset": "fruit",
        "dataset_version": "d" * 64,
        "storage": "folder",
        "pipeline": "imagenet-train",
        "pipeline_hash": "e" * 64,
        "engine": "fused-2",
        "batch_size": 10,
        "epochs": 2,
        "seed": 7,
        "strategy": "wrr",
        "reorder_window": None,
        "calibration": 10,
        "replay_of": None,
        "world_size": 1,
        "tail": TailPolicy.SHORT,
        "on_bad": BadPolicy.FAIL,
        "max_bad_share": 0.01,
        "bad_samples": 0,
        "state": RunState.RUNNING,
        "reason": None,
        "samples": 1000,
        "batches": 100,
        "images": {"cpu": 0, "csd": 0},
        "images_per_s": {"cpu": None, "csd": None},
        "wait_share": None,
        "stall": StallInfo(spent_s={}, shares={}, limited_by=None, sentence="Nothing yet."),
        "energy": [],
        "emulated": ["csd"],
        "reads": [],
        "created_at": 0.0,
        "started_at": 10.0,
        "ended_at": 20.0,
    }
    return RunInfo(**values | changes)


def epoch_info(**changes: Any) -> EpochInfo:
    """An epoch that both prongs completed: 70 batches from the head, 30 from the tail."""
    values: dict[str, Any] = {
        "number": 0,
        "state": EpochState.COMPLETE,
        "batches": 100,
        "head": 70,
        "tail": 70,
        "split": None,
        "meeting_point": 70,
        "made": {"cpu": 70, "csd": 30},
        "consumed": 100,
        "delivered": {"cpu": 70, "csd": 30},
        "started_at": 10.0,
        "ended_at": 20.0,
    }
    return EpochInfo(**values | changes)


def snapshot(**changes: Any) -> Snapshot:
    """A run at its very beginning."""
    values: dict[str, Any] = {
        "state": RunState.RUNNING,
        "epoch": 0,
        "batches": 100,
        "consumed": 0,
        "cpu": NONE,
        "csd": NONE,
        "split": None,
        "meeting_point": None,
        "delivered_images_per_s": 0.0,
        "wait_share": None,
        "spent_s": {},
        "limited_by": None,
        "limit": "Nothing yet.",
        "trainer_silent_s": None,
    }
    return Snapshot(**values | changes)


def owned(batches: int, cpu: Front, csd: Front) -> BatchOwners:
    """Two whole fronts, each with what it has delivered, has ready, and has leased."""
    stretches, left, right = [], 0, batches
    for shade in Shade:
        many = getattr(cpu, shade.value)
        stretches.append(Stretch((Prong.CPU, shade), left, many))
        left += many
    for shade in Shade:
        many = getattr(csd, shade.value)
        right -= many
        stretches.append(Stretch((Prong.CSD, shade), right, many))
    found = sorted((part for part in stretches if part.batches), key=lambda part: part.first)
    meeting = left if left == right and 0 < left < batches else None
    return BatchOwners(found, meeting, cpu.taken, batches - csd.taken)


def energy(source: str, joules: float | None, provenance: str = "modelled") -> EnergyInfo:
    """What one prong used; unknown where no joules are given."""
    return EnergyInfo(
        source=source,
        joules=joules,
        joules_per_image=None if joules is None else joules / 100,
        provenance="unavailable" if joules is None else provenance,
        method="x",
    )


def device_report(source: str, device: str, **changes: Any) -> DeviceReport:
    """A device that made 100 images in 50 seconds for 25 modelled joules."""
    known = Joules(joules=25.0, provenance=Provenance.MODELLED, method="x", period_s=50.0)
    values: dict[str, Any] = {
        "source": source,
        "device": device,
        "emulated": False,
        "batches": 10,
        "images": 100,
        "busy_s": 40.0,
        "cpu_s": 40.0,
        "stages_s": {},
        "fetched_bytes": 0,
        "written_bytes": 0,
        "peak_bytes": 0,
        "memory_byte_s": 0.0,
        "energy": [known],
    }
    return DeviceReport(**values | changes)


def page(
    info: RunInfo | None = None,
    epochs: list[EpochInfo] | None = None,
    seen: Snapshot | None = None,
    **facts: Any,
) -> RunView:
    """A run's page; without a snapshot, that of a run that is over."""
    info, epochs = info or run_info(), epochs or []
    last = next((epoch for epoch in reversed(epochs) if epoch.consumed), None)
    owners = NOTHING
    if seen is not None:
        owners = owned(seen.batches, seen.cpu, seen.csd)
    elif last is not None:
        cpu, csd = (Front(last.made[p], last.delivered[p], 0, 0, 0.0) for p in ("cpu", "csd"))
        owners = owned(last.batches, cpu, csd)
    values: dict[str, Any] = {"devices": [], "events": [], "consumed": 0, "limits": LIMITS}
    values |= {"owners": owners} | facts
    return run_view(RunFacts(info=info, epochs=epochs, **values), seen)


def live(**changes: Any) -> RunView:
    """The page of a run that goes on."""
    return page(seen=snapshot(**changes))
