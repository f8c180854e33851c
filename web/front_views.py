"""View models of both fronts: one bar, two cursors, where they meet, and when."""

from dataclasses import dataclass

from ddlp.core.messages import EpochInfo, RunInfo
from ddlp.core.types import Prong, RunState
from ddlp.core.units import duration, per_second
from ddlp.server.snapshot import Front, Snapshot

SCALE = 1000
"""Width of the bar of both fronts, in its own units."""
_CURSOR = 2.0
"""Width of a cursor."""


@dataclass(frozen=True)
class Segment:
    """A piece of the bar."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True)
class Side:
    """One front in words."""

    prong: str
    label: str
    delivered: str
    ready: str
    leased: str
    rate: str
    emulated: bool


@dataclass(frozen=True)
class Fronts:
    """Both fronts of the epoch that is being delivered."""

    title: str
    segments: list[Segment]
    cursors: list[Segment]
    """Where each side takes its next batch, while it takes any."""
    marker: float | None
    sides: list[Side]
    outlook: str
    summary: str


def fronts_view(info: RunInfo, epochs: list[EpochInfo], seen: Snapshot | None) -> Fronts:
    """The bar as it stands, or as the last epoch ended."""
    cpu, csd = (seen.cpu, seen.csd) if seen else _final_fronts(epochs)
    segments = _segments(info.batches, cpu, csd)
    marker, outlook = _outlook(info, epochs, seen)
    return Fronts(
        title=f"Both fronts · {info.batches:,} batches of {info.batch_size}",
        segments=segments,
        cursors=_cursors(info.batches, cpu, csd) if seen and seen.meeting_point is None else [],
        marker=marker,
        sides=[
            _side(Prong.CPU, "CPU from the head", cpu, emulated=False, live=seen is not None),
            _side(
                Prong.CSD,
                "CSD from the tail",
                csd,
                emulated=Prong.CSD.value in info.emulated,
                live=seen is not None,
            ),
        ],
        outlook=outlook,
        summary=(
            f"CPU delivered {cpu.delivered} from the head, CSD delivered {csd.delivered} from the "
            f"tail, of {info.batches} batches; {outlook}"
        ),
    )


def _final_fronts(epochs: list[EpochInfo]) -> tuple[Front, Front]:
    """The last epoch that delivered something, when there is nothing live to show."""
    shown = next((epoch for epoch in reversed(epochs) if epoch.consumed), None)
    if shown is None:
        return Front(0, 0, 0, 0, 0.0), Front(0, 0, 0, 0, 0.0)
    cpu, csd = (Front(shown.made[p], shown.delivered[p], 0, 0, 0.0) for p in Prong)
    return cpu, csd


def _segments(batches: int, cpu: Front, csd: Front) -> list[Segment]:
    """The bar's parts, side by side: each begins exactly where its neighbour ends."""
    parts, head, tail = [], 0, batches
    for kind in ("delivered", "ready", "leased"):
        start, head = head, head + getattr(cpu, kind)
        parts.append(_segment(f"cpu-{kind}", start, head, batches))
    for kind in ("delivered", "ready", "leased"):
        stop, tail = tail, tail - getattr(csd, kind)
        parts.append(_segment(f"csd-{kind}", tail, stop, batches))
    return [part for part in parts if part.width > 0]


def _segment(kind: str, start: int, stop: int, batches: int) -> Segment:
    left, right = (_place(batch, batches) for batch in (start, stop))
    return Segment(kind, left, round(right - left, 1))


def _cursors(batches: int, cpu: Front, csd: Front) -> list[Segment]:
    """Where each side goes on, drawn inside the bar."""
    head, tail = (_place(at, batches) for at in (cpu.taken, batches - csd.taken))
    return [
        Segment("cpu-cursor", min(head, SCALE - _CURSOR), _CURSOR),
        Segment("csd-cursor", max(round(tail - _CURSOR, 1), 0.0), _CURSOR),
    ]


def _place(batch: int, batches: int) -> float:
    return round(SCALE * batch / max(1, batches), 1)


def _side(prong: Prong, label: str, front: Front, *, emulated: bool, live: bool) -> Side:
    return Side(
        prong=prong.value,
        label=label,
        delivered=f"{front.delivered:,}",
        ready=f"{front.ready:,}",
        leased=f"{front.leased:,}",
        rate=per_second(front.images_per_s) if live else "—",
        emulated=emulated,
    )


def _outlook(
    info: RunInfo, epochs: list[EpochInfo], seen: Snapshot | None
) -> tuple[float | None, str]:
    """Where the fronts meet: where they did, or where they will at the rates of now."""
    if seen is None:
        met = [e.meeting_point for e in epochs if e.consumed and e.meeting_point is not None]
        return _met(met[-1], info.batches) if met else (None, "the fronts did not meet")
    if seen.meeting_point is not None:
        return _met(seen.meeting_point, seen.batches)
    if seen.state is RunState.PAUSED:
        return None, "paused"
    return _forecast(info, seen)


def _met(at: int, batches: int) -> tuple[float, str]:
    return SCALE * at / max(1, batches), f"they met at batch {at:,}"


def _forecast(info: RunInfo, seen: Snapshot) -> tuple[float | None, str]:
    rate = seen.cpu.images_per_s + seen.csd.images_per_s
    if rate <= 0:
        waiting = seen.cpu.ready + seen.csd.ready > 0
        return None, "waiting for the trainer" if waiting else "starting"
    left = seen.batches - seen.cpu.taken - seen.csd.taken
    meeting = seen.split
    if meeting is None:
        meeting = seen.cpu.taken + round(left * seen.cpu.images_per_s / rate)
    return (
        SCALE * meeting / seen.batches,
        f"they meet near batch {meeting:,} in about {duration(left * info.batch_size / rate)}",
    )
