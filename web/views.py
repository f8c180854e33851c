"""View models: what the templates show, computed and formatted beforehand."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from ddlp.core.lifecycle import ALLOWED, TERMINAL
from ddlp.core.messages import DeviceInfo, EnergyInfo, EpochInfo, RoomInfo, RunInfo
from ddlp.core.schedule import CHOICES, STRATEGIES
from ddlp.core.types import EpochState, Prong, RunState, Spending
from ddlp.core.units import duration, joules, size
from ddlp.server.snapshot import Front, Snapshot
from ddlp.web.spent_views import SpentView, spent_view

SCALE = 1000
"""Width of the bar of both fronts, in its own units."""


@dataclass(frozen=True)
class Segment:
    """A piece of the bar."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True)
class Side:
    """One front in words."""

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
    marker: float | None
    cpu: Side
    csd: Side
    outlook: str
    summary: str


@dataclass(frozen=True)
class Tile:
    """One large figure."""

    figure: str
    caption: str
    mark: str | None = None


@dataclass(frozen=True)
class RunView:
    """A run's page."""

    name: str
    state: str
    reason: str | None
    chips: list[str]
    actions: list[str]
    live: bool
    percent: int
    bad_samples: int
    fronts: Fronts
    tiles: list[Tile]
    spent: SpentView
    energy: list[tuple[str, str, str, str, str]]
    idle: list[tuple[str, str, str, str, str]]
    """Joules that hosts and drives would have used anyway."""
    held_up: str | None
    """Why it makes nothing for now."""
    reads: list[tuple[str, str, str, str]]
    """How batches reached the trainer: path, reason, batches, bytes."""
    emulated_csd: bool
    epochs: list[tuple[int, str, str, str, str]]
    engine: str
    facts: list[tuple[str, str]]
    strategy: str
    strategies: list[str]
    """What it can be switched to; none once it is over."""


@dataclass(frozen=True)
class RunRow:
    """A run in the list."""

    name: str
    state: str
    dataset: str
    strategy: str
    images: str
    bad: str
    created: str
    created_exact: str


@dataclass(frozen=True)
class DeviceRow:
    """A device in the list."""

    name: str
    prong: str
    kind: str
    emulated: bool
    slots: int
    live: bool
    engine: str
    store: str
    room: str


def run_view(
    info: RunInfo, epochs: list[EpochInfo], seen: Snapshot | None, consumed: int = 0
) -> RunView:
    """Everything a run's page shows, from its last epochs and the batches consumed of all."""
    state = seen.state if seen else info.state
    return RunView(
        name=info.name,
        state=state.value,
        reason=info.reason,
        chips=[
            _epoch_chip(info, epochs, seen),
            _strategy_chip(info),
            f"batch {info.batch_size}",
            f"seed {info.seed}",
            *_bad_chip(info),
        ],
        actions=_actions(state),
        live=seen is not None,
        percent=100 * consumed // max(1, info.batches * info.epochs),
        bad_samples=info.bad_samples,
        fronts=_fronts(info, epochs, seen),
        tiles=_tiles(info, seen),
        spent=_spent(info, seen),
        energy=[_energy_row(entry, info) for entry in info.energy if not entry.apart],
        idle=[_energy_row(entry, info) for entry in info.energy if entry.apart],
        held_up=info.held_up,
        reads=[
            (read.path.value, read.reason, f"{read.batches:,}", size(read.bytes))
            for read in info.reads
        ],
        emulated_csd=Prong.CSD.value in info.emulated,
        epochs=[_epoch_row(epoch) for epoch in reversed(epochs)],
        engine=info.engine,
        facts=[
            ("dataset", f"{info.dataset} · {info.samples:,} samples · {info.dataset_version[:12]}"),
            ("storage form", info.storage or "not known"),
            ("pipeline", f"{info.pipeline} · {info.pipeline_hash[:12]}"),
            ("strategy", STRATEGIES[info.strategy].summary),
            (
                "ranks",
                f"{info.world_size} · samples that fill no batch for each: {info.tail.value}",
            ),
            ("created", exact(info.created_at)),
            *([("replays", str(info.replay_of))] if info.replay_of else []),
        ],
        strategy=info.strategy,
        strategies=[] if state in TERMINAL else list(CHOICES),
    )


def run_row(info: RunInfo) -> RunRow:
    """A run as one line of the list."""
    made = sum(info.images.values())
    return RunRow(
        name=info.name,
        state=info.state.value,
        dataset=info.dataset,
        strategy=info.strategy,
        images=f"{made:,} of {info.samples * info.epochs:,}",
        bad=f"{info.bad_samples:,}" if info.bad_samples else "—",
        created=_ago(info.created_at),
        created_exact=exact(info.created_at),
    )


def device_row(info: DeviceInfo) -> DeviceRow:
    """A device as one line of the list."""
    return DeviceRow(
        name=info.name,
        prong=info.prong.value,
        kind=info.kind.value,
        emulated=info.emulated,
        slots=info.slots,
        live=info.live,
        engine=info.engine,
        store=info.serves or info.store,
        room=_room(info.room),
    )


def exact(at: float) -> str:
    """A time to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _room(room: RoomInfo) -> str:
    return "—" if room.free_bytes is None else f"{size(room.free_bytes)} free"


def _actions(state: RunState) -> list[str]:
    verbs = {RunState.PAUSED: "pause", RunState.RUNNING: "resume", RunState.CANCELLED: "cancel"}
    wanted = [verb for target, verb in verbs.items() if target in ALLOWED[state]]
    return [verb for verb in wanted if verb != "resume" or state is RunState.PAUSED]


def _epoch_chip(info: RunInfo, epochs: list[EpochInfo], seen: Snapshot | None) -> str:
    number = (
        seen.epoch
        if seen and seen.epoch is not None
        else max((e.number for e in epochs), default=0)
    )
    return f"epoch {number + 1} of {info.epochs}"


def _strategy_chip(info: RunInfo) -> str:
    window = "" if info.reorder_window is None else f", window {info.reorder_window}"
    return f"{info.strategy}{window}"


def _bad_chip(info: RunInfo) -> list[str]:
    many = "" if info.bad_samples == 1 else "s"
    return [f"{info.bad_samples:,} bad sample{many}"] if info.bad_samples else []


def _fronts(info: RunInfo, epochs: list[EpochInfo], seen: Snapshot | None) -> Fronts:
    cpu, csd = (seen.cpu, seen.csd) if seen else _final_fronts(epochs)
    marker, outlook = _outlook(info, epochs, seen)
    return Fronts(
        title=f"Both fronts · {info.batches:,} batches of {info.batch_size}",
        segments=_segments(info.batches, cpu, csd),
        marker=marker,
        cpu=_side("CPU from the head", cpu, emulated=False),
        csd=_side("CSD from the tail", csd, emulated=Prong.CSD.value in info.emulated),
        outlook=outlook,
        summary=(
            f"CPU delivered {cpu.delivered} from the head, CSD delivered {csd.delivered} from the "
            f"tail, of {info.batches} batches"
        ),
    )


def _final_fronts(epochs: list[EpochInfo]) -> tuple[Front, Front]:
    """The last epoch that delivered something, when there is nothing live to show."""
    shown = next((epoch for epoch in reversed(epochs) if epoch.consumed), None)
    made = shown.made if shown else {"cpu": 0, "csd": 0}
    cpu, csd = (Front(made[p], made[p], 0, 0, 0.0) for p in ("cpu", "csd"))
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
    left, right = (round(SCALE * batch / max(1, batches), 1) for batch in (start, stop))
    return Segment(kind, left, round(right - left, 1))


def _side(label: str, front: Front, emulated: bool) -> Side:
    return Side(
        label=label,
        delivered=f"{front.delivered:,}",
        ready=f"{front.ready:,}",
        leased=f"{front.leased:,}",
        rate=f"{front.images_per_s:,.0f}",
        emulated=emulated,
    )


def _outlook(
    info: RunInfo, epochs: list[EpochInfo], seen: Snapshot | None
) -> tuple[float | None, str]:
    """Where the fronts meet: where they did, or where they will at the rates of now."""
    if seen is None:
        last = next(
            (e for e in reversed(epochs) if e.consumed and e.meeting_point is not None), None
        )
        if last is None or last.meeting_point is None:
            return None, "the fronts did not meet"
        place = SCALE * last.meeting_point / info.batches
        return place, f"they met at batch {last.meeting_point:,}"
    if seen.meeting_point is not None:
        return (
            SCALE * seen.meeting_point / seen.batches,
            f"they met at batch {seen.meeting_point:,}",
        )
    if seen.state is RunState.PAUSED:
        return None, "paused"
    return _forecast(info, seen)


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


def _tiles(info: RunInfo, seen: Snapshot | None) -> list[Tile]:
    made = sum(info.images.values())
    wait = seen.wait_share if seen else info.wait_share
    if seen:
        rate, caption = f"{seen.delivered_images_per_s:,.0f}", "images/s delivered now"
    else:
        rate, caption = f"{made:,}", "images made"
    return [
        Tile(rate, caption),
        Tile("—" if wait is None else f"{wait:.1%}", "of the trainer's time spent waiting"),
        _energy_tile(info),
        Tile(
            duration((info.ended_at or time.time()) - (info.started_at or info.created_at)),
            "so far" if seen else "in all",
        ),
    ]


def _spent(info: RunInfo, seen: Snapshot | None) -> SpentView:
    """Of the last seconds while it lives, then over all of it."""
    if seen is not None and sum(seen.spent_s.values()) > 0:
        spent_s = {Spending(what): seconds for what, seconds in seen.spent_s.items()}
        return spent_view(spent_s, seen.limit, live=True)
    return spent_view(info.stall.spent_s, info.stall.sentence, live=False)


def _energy_tile(info: RunInfo) -> Tile:
    """Joules an image over all that worked; unknown as soon as one that made some is unknown."""
    made = {source: images for source, images in info.images.items() if images}
    working = [entry for entry in info.energy if not entry.apart]
    unknown = [entry for entry in working if entry.source in made and entry.joules is None]
    known = [entry for entry in working if entry.joules is not None]
    if unknown or not made or not known:
        return Tile("—", "per image", "unavailable")
    total = sum(entry.joules for entry in known if entry.joules is not None)
    how = " + ".join(sorted({entry.provenance for entry in known}))
    return Tile(joules(total / sum(made.values())), "per image", how)


def _energy_row(entry: EnergyInfo, info: RunInfo) -> tuple[str, str, str, str, str]:
    label = _SOURCES.get(entry.source, entry.source)
    return (
        f"{label} (emulated)" if entry.source in info.emulated else label,
        joules(entry.joules),
        joules(entry.joules_per_image),
        entry.provenance,
        entry.method,
    )


_SOURCES = {
    "cpu": "CPU workers",
    "csd": "CSD",
    "dram": "Memory",
    "gpu": "GPUs",
    "idle": "Idle hosts and drives",
}


def _epoch_row(epoch: EpochInfo) -> tuple[int, str, str, str, str]:
    met = "—" if epoch.meeting_point is None else f"batch {epoch.meeting_point:,}"
    ended = epoch.ended_at or time.time()
    over = "" if epoch.state is EpochState.OPEN else f" in {duration(ended - epoch.started_at)}"
    return (
        epoch.number,
        f"{epoch.state.value}{over}",
        f"{epoch.made['cpu']:,} CPU · {epoch.made['csd']:,} CSD",
        met,
        f"{epoch.consumed:,} of {epoch.batches:,}",
    )


def _ago(at: float) -> str:
    return f"{duration(time.time() - at)} ago"
