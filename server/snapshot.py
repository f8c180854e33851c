"""A run at one moment, as its page shows it: both fronts, what lies where, live rates."""

import uuid
from dataclasses import dataclass, field

from ddlp.core.schedule import EpochSchedule
from ddlp.core.stalls import Circumstances, limit
from ddlp.core.types import BatchState, Prong, RunState
from ddlp.server import figures
from ddlp.server.board import ActiveRun, Board
from ddlp.server.telemetry import TRAINER

_SEEN_S = 15
"""Over so many seconds it is said what the trainer waits for."""
_POWER_S = 10
"""Joules come in lumps: watts are means over so many seconds."""


@dataclass(frozen=True)
class Front:
    """One prong's side of an epoch, in batches."""

    taken: int
    """Given out so far from this end."""
    delivered: int
    ready: int
    leased: int
    images_per_s: float


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment."""

    state: RunState
    epoch: int | None
    batches: int
    consumed: int
    cpu: Front
    csd: Front
    split: int | None
    meeting_point: int | None
    delivered_images_per_s: float | None
    """None where it is not measured: no trainer asks, or what it takes was made before."""
    wait_share: float | None
    spent_s: dict[str, float]
    """Of the trainer's last seconds, by what they were spent on; ranks are added up."""
    limited_by: str | None
    limit: str
    """What limits the run now, and what would change it."""
    trainer_silent_s: float | None
    """Seconds since a trainer was last heard of; None while none has come."""
    live_devices: dict[str, str] = field(default_factory=dict)
    stalled: bool = False
    """Whether no device makes batches for it."""
    watts: dict[str, float] = field(default_factory=dict)
    """By source, of those that used something lately."""


def take(board: Board, run_id: uuid.UUID, now: float) -> Snapshot:
    """How a run stands now."""
    run = board.run(run_id)
    epoch = _shown_epoch(run)
    heard = run.heard_at
    split = epoch.settled.get("split") if epoch else None
    trainer = run.telemetry.recent(now, TRAINER, _SEEN_S)
    found = limit(trainer.spent_s, _circumstances(board, run, now))
    return Snapshot(
        state=run.state,
        epoch=epoch.number if epoch else None,
        batches=epoch.batches if epoch else run.schedule.plan.batches,
        consumed=epoch.consumed if epoch else 0,
        cpu=_front(run, epoch, Prong.CPU, now),
        csd=_front(run, epoch, Prong.CSD, now),
        split=int(split) if split is not None else None,
        meeting_point=epoch.meeting_point if epoch else None,
        delivered_images_per_s=run.delivered_per_s(now),
        wait_share=figures.wait_share(trainer),
        spent_s={what.value: seconds for what, seconds in trainer.spent_s.items()},
        limited_by=found.by.value if found.by else None,
        limit=found.sentence,
        trainer_silent_s=None if heard is None else now - heard,
        live_devices={
            device.name: device.kind.value
            for device in board.devices.values()
            if board.is_live(device, now) and device.prong in run.schedule.strategy.prongs
        },
        stalled=_is_stalled(run),
        watts=_watts(run, now),
    )


def _watts(run: ActiveRun, now: float) -> dict[str, float]:
    found = {}
    for source in figures.SOURCES:
        recent = run.telemetry.recent(now, source, _POWER_S)
        joules = recent.joules_modelled + recent.joules_measured
        if joules > 0 and not recent.joules_unknown:
            found[source] = joules / _POWER_S
    return found


def _circumstances(board: Board, run: ActiveRun, now: float) -> Circumstances:
    drives = [d for d in board.devices.values() if d.prong is Prong.CSD]
    return Circumstances(
        strategy=run.schedule.strategy.name,
        storage=run.storage,
        has_csd=any(board.is_live(drive, now) for drive in drives),
        paused=run.state is RunState.PAUSED,
        devices=frozenset(held.device for held in run.sessions.values()),
        has_device=not _is_stalled(run),
    )


def _is_stalled(run: ActiveRun) -> bool:
    """Whether nothing makes batches for a run: no device lives, or all of its own are drained."""
    return not run.schedule.fleet.alive(run.schedule.strategy.prongs)


def _shown_epoch(run: ActiveRun) -> EpochSchedule | None:
    """The epoch that is being delivered; the next one may already be under way behind it."""
    return run.schedule.epochs[min(run.schedule.epochs)] if run.schedule.epochs else None


def _front(run: ActiveRun, epoch: EpochSchedule | None, prong: Prong, now: float) -> Front:
    rate = run.telemetry.images_per_s(now, prong.value)
    if epoch is None:
        return Front(0, 0, 0, 0, rate)
    frontier, segment = epoch.frontier, epoch.segment
    head = segment.position + frontier.head - segment.first
    taken = head if prong is Prong.CPU else segment.first + segment.full - frontier.tail
    count = epoch.under_way.count
    return Front(
        taken=taken,
        delivered=epoch.consumed_of[prong],
        ready=count(prong, BatchState.READY, BatchState.HANDED),
        leased=count(prong, BatchState.QUEUED, BatchState.LEASED),
        images_per_s=rate,
    )
