"""View models of a run's page: every word and figure of it, computed and formatted beforehand."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ddlp.core.dataset.files import CHANGED
from ddlp.core.lifecycle import ACTIVE, ALLOWED, TERMINAL
from ddlp.core.messages import EpochInfo, LimitsInfo, RunInfo
from ddlp.core.messages.audit import AuditInfo
from ddlp.core.messages.reports import DeviceReport
from ddlp.core.schedule import CHOICES, STRATEGIES
from ddlp.core.schedule.limits import bad_allowed
from ddlp.core.types import EpochState, Prong, RunState, Spending
from ddlp.core.units import duration, epoch_of, joules, per_second, size
from ddlp.server.batch_owners import NOTHING, BatchOwners
from ddlp.server.snapshot import Snapshot
from ddlp.web.energy_views import EnergyView, energy_view, joules_per_image
from ddlp.web.front_views import Fronts, fronts_view
from ddlp.web.spent_views import SpentView, spent_view
from ddlp.web.tiles import Tile

_MB = 1_000_000


@dataclass(frozen=True)
class Action:
    """A button that changes a run."""

    label: str
    send: str
    then: str = ""
    key: str = ""
    confirm: str = ""
    danger: bool = False


@dataclass(frozen=True)
class LimitField:
    """A window or budget that can be changed in place."""

    name: str
    label: str
    value: float
    scale: int
    """What one of the label's unit is in that of the API."""
    least: int
    meaning: str


@dataclass(frozen=True)
class EpochRow:
    """One epoch."""

    number: int
    state: str
    made: str
    consumed: str


@dataclass(frozen=True)
class RunFacts:
    """What is read of a run for its page."""

    info: RunInfo
    epochs: list[EpochInfo]
    devices: list[DeviceReport]
    events: list[AuditInfo]
    consumed: int
    """Batches of all epochs."""
    limits: LimitsInfo | None = None
    owners: BatchOwners = NOTHING
    """Who made what of the epoch that the bar shows."""


@dataclass(frozen=True)
class RunView:
    """A run's page."""

    name: str
    state: str
    reason: str | None
    chips: list[str]
    actions: list[Action]
    live: bool
    percent: int
    fronts: Fronts
    tiles: list[Tile]
    spent: SpentView
    energy: EnergyView
    held_up: str | None
    """Why it makes nothing for now, or less than it could."""
    stalled: bool
    """Whether nothing makes batches for it: somebody has to do something."""
    stale: bool
    """Whether it failed because the dataset's files changed: a retry would fail again."""
    dataset: str
    reads: list[tuple[str, str, str, str]]
    """How batches reached the trainer: path, reason, batches, bytes."""
    emulated_csd: bool
    epochs: list[EpochRow]
    events: list[AuditInfo]
    engine: str
    facts: list[tuple[str, str]]
    strategy: str
    window: int | None
    strategies: list[tuple[str, str]]
    """What it can be switched to, with what that is; none once it is over."""
    limits: list[LimitField]
    extend_to: int | None
    """The fewest epochs that it can be extended to; None where it cannot be."""
    world_size: int
    created_at: float


def run_view(facts: RunFacts, seen: Snapshot | None) -> RunView:
    """Everything a run's page shows."""
    info, epochs = facts.info, facts.epochs
    state = seen.state if seen else info.state
    over = state in TERMINAL
    return RunView(
        name=info.name,
        state=state.value,
        reason=info.reason,
        chips=_chips(info, epochs, seen),
        actions=_actions(info, state),
        live=seen is not None,
        percent=_percent(facts),
        fronts=fronts_view(info, epochs, seen, facts.owners),
        tiles=_tiles(facts, seen),
        spent=_spent(info, seen),
        energy=energy_view(facts.devices, sum(info.images.values())),
        held_up=info.held_up,
        stalled=seen is not None and seen.stalled and state is not RunState.PAUSED,
        stale=_is_stale(info),
        dataset=info.dataset,
        reads=[
            (read.path.value, read.reason, f"{read.batches:,}", size(read.bytes))
            for read in info.reads
        ],
        emulated_csd=Prong.CSD.value in info.emulated,
        epochs=[_epoch_row(epoch, STRATEGIES[info.strategy].prongs) for epoch in reversed(epochs)],
        events=facts.events,
        engine=info.engine,
        facts=_facts(info),
        strategy=info.strategy,
        window=info.reorder_window,
        strategies=[] if over else [(name, STRATEGIES[name].summary) for name in CHOICES],
        extend_to=_extend_to(info, state),
        limits=[] if over or facts.limits is None else _limits(facts.limits),
        world_size=info.world_size,
        created_at=info.created_at,
    )


def _is_stale(info: RunInfo) -> bool:
    return info.state is RunState.FAILED and CHANGED in (info.reason or "")


def _actions(info: RunInfo, state: RunState) -> list[Action]:
    """What can be done to a run in this state."""
    name = info.name
    allowed, address = ALLOWED[state], f"POST /api/v1/runs/{name}"
    found = []
    if state in ACTIVE and RunState.PAUSED in allowed:
        found.append(Action("Pause", f"{address}/pause", key="p"))
    if state is RunState.PAUSED:
        found.append(Action("Resume", f"{address}/resume", key="p"))
    if state in TERMINAL and state is not RunState.COMPLETED and not _is_stale(info):
        found.append(Action("Retry", f"{address}/retry", then="/runs/{name}"))
    if RunState.CANCELLED in allowed:
        question = f"Cancel {name}? Its batches are deleted. This cannot be undone."
        found.append(Action("Cancel", f"{address}/cancel", confirm=question, danger=True))
    if state in TERMINAL:
        question = f"Delete {name}? Its certificates and metrics go too. This cannot be undone."
        delete = f"DELETE /api/v1/runs/{name}"
        found.append(Action("Delete", delete, then="/", confirm=question, danger=True))
    return found


def _extend_to(info: RunInfo, state: RunState) -> int | None:
    """The next number of epochs of a run that is over and can go on."""
    done = state in TERMINAL and RunState.PAUSED in ALLOWED[state]
    return info.epochs + 1 if done and info.epochs is not None else None


def _chips(info: RunInfo, epochs: list[EpochInfo], seen: Snapshot | None) -> list[str]:
    number = max((epoch.number for epoch in epochs), default=0)
    if seen and seen.epoch is not None:
        number = seen.epoch
    window = "" if info.reorder_window is None else f", window {info.reorder_window}"
    many = "" if info.bad_samples == 1 else "s"
    return [
        f"epoch {epoch_of(number, info.epochs)}",
        f"{info.strategy}{window}",
        f"batch {info.batch_size}",
        f"seed {info.seed}",
        *([f"{info.bad_samples:,} bad sample{many}"] if info.bad_samples else []),
        *([f"{info.samples_left:,} samples left"] if info.samples_left else []),
    ]


def _percent(facts: RunFacts) -> int:
    """How much of the run is done; of an open-ended one, how much of its newest epoch."""
    info = facts.info
    if info.epochs is not None:
        return 100 * facts.consumed // max(1, info.batches * info.epochs)
    begun = [epoch for epoch in facts.epochs if epoch.consumed]
    return 100 * begun[-1].consumed // max(1, begun[-1].batches) if begun else 0


def _tiles(facts: RunFacts, seen: Snapshot | None) -> list[Tile]:
    info = facts.info
    wait = seen.wait_share if seen else info.wait_share
    each, how = joules_per_image(info)
    if seen:
        first = Tile(per_second(seen.delivered_images_per_s), "images/s delivered")
    else:
        first = Tile(per_second(info.delivered_images_per_s), "images/s delivered, on average")
    waiting = Tile("—" if wait is None else f"{100 * wait:.1f} %", "of training time spent waiting")
    return [first, waiting, Tile(joules(each), "per image", how), _time_tile(facts, seen)]


def _time_tile(facts: RunFacts, seen: Snapshot | None) -> Tile:
    """The time left at the rate of now, or the time that it took."""
    info = facts.info
    if seen is None:
        ended = info.ended_at or time.time()
        return Tile(duration(ended - (info.started_at or info.created_at)), "in all")
    if info.epochs is None:  # as many as training asks for
        return Tile(duration(time.time() - (info.started_at or info.created_at)), "so far")
    left = info.batches * info.epochs - facts.consumed
    epochs = -(-left // max(1, info.batches))
    what = f"left for {epochs:,} epochs" if epochs > 1 else "left"
    rate = seen.delivered_images_per_s
    if seen.state is RunState.PAUSED or not rate:
        return Tile("—", what)
    return Tile(duration(left * info.batch_size / rate), what)


def _spent(info: RunInfo, seen: Snapshot | None) -> SpentView:
    """Of the last seconds while it lives, then over all of it."""
    if seen is not None and (seen.stalled or sum(seen.spent_s.values()) > 0):
        spent_s = {Spending(what): seconds for what, seconds in seen.spent_s.items()}
        return spent_view(spent_s, seen.limit, live=True)
    return spent_view(info.stall.spent_s, info.stall.sentence, live=False)


def _made(epoch: EpochInfo, prongs: tuple[Prong, ...]) -> str:
    """By each side that works for the run, or did."""
    made = {prong: epoch.made[prong] for prong in Prong if prong in prongs or epoch.made[prong]}
    return " · ".join(f"{many:,} {prong.upper()}" for prong, many in made.items())


def _epoch_row(epoch: EpochInfo, prongs: tuple[Prong, ...]) -> EpochRow:
    ended = epoch.ended_at or time.time()
    over = "" if epoch.state is EpochState.OPEN else f" in {duration(ended - epoch.started_at)}"
    return EpochRow(
        number=epoch.number,
        state=f"{epoch.state.value}{over}",
        made=_made(epoch, prongs),
        consumed=f"{epoch.consumed:,} of {epoch.batches:,}",
    )


def _facts(info: RunInfo) -> list[tuple[str, str]]:
    allowed = bad_allowed(info.max_bad_share, info.samples)
    bad = f"{info.on_bad.value}, at most {allowed:,} in an epoch"
    return [
        ("dataset", f"{info.dataset} · {info.samples:,} samples · {info.dataset_version[:12]}"),
        ("storage form", info.storage or "not known"),
        ("pipeline", f"{info.pipeline} · {info.pipeline_hash[:12]}"),
        ("strategy", STRATEGIES[info.strategy].summary),
        ("ranks", f"{info.world_size} · last batch: {info.tail.value}"),
        ("bad samples", "the first one ends the run" if info.on_bad.value == "fail" else bad),
        ("id", str(info.id)),
        *([("replays", str(info.replay_of))] if info.replay_of else []),
    ]


def _limits(limits: LimitsInfo) -> list[LimitField]:
    """Windows and budgets as they are in force, with what each comes to in batches."""
    now = limits.batches or {}
    each = "" if limits.batch_bytes is None else f"; a batch is {size(limits.batch_bytes)}"
    return [
        LimitField(
            name="cpu_window",
            label="CPU window, batches",
            value=limits.cpu_window,
            scale=1,
            least=1,
            meaning=f"in force: {_batches(now, Prong.CPU)} unconsumed at most",
        ),
        *(
            LimitField(
                name=f"{prong}_store_bytes",
                label=f"{prong.upper()} store, MB",
                value=round(getattr(limits, f"{prong}_store_bytes") / _MB, 1),
                scale=_MB,
                least=2,
                meaning=f"in force: {_batches(now, prong)}{each}",
            )
            for prong in Prong
        ),
    ]


def _batches(in_force: Mapping[str, int], prong: Prong) -> str:
    return f"{in_force[prong]:,} batches" if prong in in_force else "not known"
