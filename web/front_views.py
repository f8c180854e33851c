"""View models of both fronts: one bar, two cursors, where they meet, and when."""

from collections import Counter
from dataclasses import dataclass, replace

from ddlp.core.messages import EpochInfo, RunInfo
from ddlp.core.schedule import STRATEGIES
from ddlp.core.types import Prong, RunState
from ddlp.core.units import duration, per_second
from ddlp.server.batch_owners import BatchOwners, Shade, Stretch
from ddlp.server.snapshot import Front, Snapshot

SCALE = 1000
"""Width of the bar of both fronts, in its own units."""
_CURSOR = 2.0
"""Width of a cursor."""
_LABELS = {Prong.CPU: "CPU workers, from the start", Prong.CSD: "CSD, from the end"}
_UNTRAINED = "Batches are ready. Start your training code to consume them."
_MAKERS = {Prong.CPU: "CPU workers", Prong.CSD: "CSDs"}


@dataclass(frozen=True)
class Segment:
    """A piece of the bar."""

    kind: str
    x: float
    width: float
    number: int = 1
    """Among those of its kind, from the left."""

    @property
    def name(self) -> str:
        """What tells it from the others, from one look to the next."""
        return self.kind if self.number == 1 else f"{self.kind}-{self.number}"


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
    """Both fronts of the epoch that is being delivered, or the one that there is."""

    title: str
    segments: list[Segment]
    cursors: list[Segment]
    """Where each side takes its next batch, while it takes any."""
    marker: float | None
    sides: list[Side]
    outlook: str
    summary: str
    removed_at: float | None
    """When the batches that the bar would show were removed, for their age."""


def fronts_view(
    info: RunInfo, epochs: list[EpochInfo], seen: Snapshot | None, owners: BatchOwners
) -> Fronts:
    """The bar as it stands, or as the last epoch ended."""
    fronts = _live_fronts(seen, owners) if seen else _final_fronts(epochs)
    batches = seen.batches if seen else info.batches
    shown = [
        part for part in owners.stretches
        if seen or part.kind is None or part.kind[1] is Shade.DELIVERED
    ]  # fmt: skip
    working = STRATEGIES[info.strategy].prongs
    made = {part.kind[0] for part in shown if part.kind}
    prongs = [prong for prong in Prong if prong in working or prong in made]
    marker, outlook = _outlook(info, epochs, seen, owners)
    return Fronts(
        title=f"Epoch progress · {info.batches:,} batches of {info.batch_size}",
        segments=_segments(batches, shown),
        cursors=_cursors(batches, owners, working) if seen and seen.meeting_point is None else [],
        marker=marker,
        sides=[
            _side(
                prong,
                fronts[prong],
                emulated=prong.value in info.emulated,
                live=seen is not None,
            )
            for prong in prongs
        ],
        outlook=outlook,
        summary=_summary(fronts, prongs, info.batches, outlook),
        removed_at=_removed_at(info) if seen is None else None,
    )


def _removed_at(info: RunInfo) -> float | None:
    """When its batches were removed; a run that was extended after that has new ones."""
    at, ended_at = info.details_removed_at, info.ended_at
    return None if at is not None and ended_at is not None and at < ended_at else at


def _summary(fronts: dict[Prong, Front], prongs: list[Prong], batches: int, outlook: str) -> str:
    ends = {Prong.CPU: "start", Prong.CSD: "end"}
    parts = [
        f"{prong.upper()} delivered {fronts[prong].delivered:,} from the {ends[prong]}"
        for prong in prongs
    ]
    return f"{', '.join(parts)}, of {batches:,} batches. {outlook}"


def shown_epoch(epochs: list[EpochInfo], seen: Snapshot | None) -> int | None:
    """The epoch of the bar: the one that is delivered, or the last that delivered something."""
    if seen is not None:
        return seen.epoch
    return next((epoch.number for epoch in reversed(epochs) if epoch.consumed), None)


def _live_fronts(seen: Snapshot, owners: BatchOwners) -> dict[Prong, Front]:
    """Rates as they are measured; batches as they are drawn, which was looked up a moment later."""
    return {
        prong: replace(front, **{shade.value: owners.count(prong, shade) for shade in Shade})
        for prong, front in zip(Prong, (seen.cpu, seen.csd), strict=True)
    }


def _final_fronts(epochs: list[EpochInfo]) -> dict[Prong, Front]:
    """The last epoch that delivered something, when there is nothing live to show."""
    shown = next((epoch for epoch in reversed(epochs) if epoch.consumed), None)
    if shown is None:
        return {prong: Front(0, 0, 0, 0, 0.0) for prong in Prong}
    return {p: Front(shown.made[p], shown.delivered[p], 0, 0, 0.0) for p in Prong}


def _segments(batches: int, stretches: list[Stretch]) -> list[Segment]:
    """The bar's parts as the batches lie: neighbours begin exactly where the others end."""
    numbers: Counter[str] = Counter()
    found = []
    for part in stretches:
        kind = "taken-over" if part.kind is None else "-".join(part.kind)
        numbers[kind] += 1
        left, right = _place(part.first, batches), _place(part.last, batches)
        found.append(Segment(kind, left, round(right - left, 1), numbers[kind]))
    return found


def _cursors(batches: int, owners: BatchOwners, working: tuple[Prong, ...]) -> list[Segment]:
    """Where each side goes on, drawn inside the bar."""
    found = []
    if Prong.CPU in working:
        head = _place(owners.head, batches)
        found.append(Segment("cpu-cursor", min(head, SCALE - _CURSOR), _CURSOR))
    if Prong.CSD in working:
        tail = _place(owners.tail, batches)
        found.append(Segment("csd-cursor", max(round(tail - _CURSOR, 1), 0.0), _CURSOR))
    return found


def _place(batch: int, batches: int) -> float:
    return round(SCALE * batch / max(1, batches), 1)


def _side(prong: Prong, front: Front, *, emulated: bool, live: bool) -> Side:
    return Side(
        prong=prong.value,
        label=_LABELS[prong],
        delivered=f"{front.delivered:,}",
        ready=f"{front.ready:,}",
        leased=f"{front.leased:,}",
        rate=per_second(front.images_per_s) if live else "—",
        emulated=emulated,
    )


def _outlook(
    info: RunInfo,
    epochs: list[EpochInfo],
    seen: Snapshot | None,
    owners: BatchOwners,
) -> tuple[float | None, str]:
    """Where the fronts meet: where they did, or where they will at the rates of now."""
    if seen is None:
        number = shown_epoch(epochs, None)
        last = next((epoch for epoch in epochs if epoch.number == number), None)
        return _over(info, last, owners)
    if seen.meeting_point is not None:
        marker, words = _met(seen.batches, owners, over=False)
        untrained = seen.trainer_silent_s is None and seen.cpu.ready + seen.csd.ready > 0
        return marker, f"{words} {_UNTRAINED}" if untrained else words
    if seen.state is RunState.PAUSED:
        return None, "Paused."
    return _forecast(info, seen)


def _over(info: RunInfo, last: EpochInfo | None, owners: BatchOwners) -> tuple[float | None, str]:
    if last is None:
        return None, "No batch was delivered."
    if last.consumed < last.batches:
        return None, f"The run ended after {last.consumed:,} of {last.batches:,} batches."
    if _removed_at(info) is not None:
        return None, "All batches of this epoch were delivered."
    return _met(info.batches, owners, over=True)


def _met(batches: int, owners: BatchOwners, *, over: bool) -> tuple[float | None, str]:
    """Where both sides touch, if that is one place; a side that works alone meets nobody."""
    makers = {part.kind[0] for part in owners.stretches if part.kind}
    if owners.meeting is not None:
        marker = SCALE * owners.meeting / max(1, batches)
        return marker, f"CPU and CSD met at batch {owners.meeting:,}."
    if len(makers) == 1:
        made = "made" if over else "make"
        return None, f"{_MAKERS[makers.pop()]} {made} all batches of this epoch."
    if over:
        return None, "No single meeting point: each side made batches of the other."
    return None, "All batches of this epoch are given out."


def _forecast(info: RunInfo, seen: Snapshot) -> tuple[float | None, str]:
    rate = seen.cpu.images_per_s + seen.csd.images_per_s
    left = seen.batches - seen.cpu.taken - seen.csd.taken
    if seen.stalled:
        known = sum(f.delivered + f.ready + f.leased for f in (seen.cpu, seen.csd))
        return None, f"Stalled: no device makes the other {seen.batches - known:,} batches."
    if rate <= 0:
        if seen.cpu.ready + seen.csd.ready <= 0:
            return None, "Starting…"
        if seen.trainer_silent_s is None:
            return None, _UNTRAINED
        return None, "Batches are ready and wait for the trainer."
    time = duration(left * info.batch_size / rate)
    working = STRATEGIES[info.strategy].prongs
    if len(working) < 2:
        return None, f"The last batch of this epoch should be made in about {time}."
    meeting = seen.split
    if meeting is None:
        meeting = seen.cpu.taken + round(left * seen.cpu.images_per_s / rate)
    return (
        SCALE * meeting / seen.batches,
        f"CPU and CSD should meet near batch {meeting:,} in about {time}.",
    )
