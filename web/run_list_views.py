"""View models of the list of runs: rows, filters, order and pages."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from ddlp.core.lifecycle import ACTIVE
from ddlp.core.messages import DeviceInfo, RunInfo
from ddlp.core.messages.run_list import RunListQuery, RunSort
from ddlp.core.types import Prong, RunState
from ddlp.core.units import duration, per_second
from ddlp.server.run_list import Delivered, LiveRate, RunChoices
from ddlp.web.energy_views import joules_per_image

_DAY_S = 86_400.0


@dataclass(frozen=True)
class RunRow:
    """A run in the list."""

    key: str
    name: str
    state: str
    active: bool
    what: str
    """Dataset, strategy and pipeline."""
    left: str | None
    """How much of an incomplete run was not delivered."""
    percent: int
    cpu_percent: float
    csd_percent: float
    taken_over_percent: float
    progress: str
    """The two-sided bar in words: what was delivered, as its number says."""
    emulated: bool
    images_per_s: str
    live: bool
    wait: str
    millijoules: str
    """Per image; in one unit and with as many decimals in all rows."""
    provenance: str | None
    bad: str
    created_at: float
    duration: str


@dataclass(frozen=True)
class StateChip:
    """A state with how many runs are in it; following it chooses or leaves the state."""

    state: str
    count: str
    address: str
    chosen: bool


@dataclass(frozen=True)
class Column:
    """A column that can be sorted by."""

    label: str
    address: str
    order: str
    """As `aria-sort` says it."""
    numeric: bool


@dataclass(frozen=True)
class Filters:
    """The form as it was filled in, with what there is to choose from."""

    search: str
    states: list[str]
    sort: str
    ascending: bool
    selects: list[tuple[str, str, list[str]]]
    """Name, chosen value and choices."""
    since: str
    until: str


@dataclass(frozen=True)
class RunListView:
    """The list of runs."""

    rows: list[RunRow]
    chips: list[StateChip]
    columns: dict[str, Column]
    filters: Filters
    filtered: bool
    here: str
    """This very list, to be fetched again."""
    newer: str | None
    older: str | None
    live: bool
    total: str
    empty: bool
    """Whether there is no run at all."""


@dataclass(frozen=True)
class ListFacts:
    """What the database and the dispatcher know of the runs of one page."""

    infos: list[RunInfo]
    counts: Mapping[RunState, int]
    choices: RunChoices
    delivered: Mapping[uuid.UUID, Delivered] = field(default_factory=dict)
    rates: Mapping[uuid.UUID, LiveRate] = field(default_factory=dict)
    next: str | None = None
    previous: str | None = None


def run_list_view(facts: ListFacts, asked: RunListQuery) -> RunListView:
    """All that the list shows."""
    rows = [
        run_row(info, facts.delivered.get(info.id, Delivered()), facts.rates.get(info.id))
        for info in facts.infos
    ]
    total = sum(facts.counts.values())
    filtered = bool(_chosen(asked))
    return RunListView(
        rows=rows,
        chips=[_chip(state, count, asked) for state, count in facts.counts.items()],
        columns={sort.value: _column(sort, asked) for sort in _COLUMNS},
        filters=_filters(asked, facts.choices),
        filtered=filtered,
        here=address(asked, cursor=asked.cursor),
        newer=address(asked, cursor=facts.previous) if facts.previous else None,
        older=address(asked, cursor=facts.next) if facts.next else None,
        live=any(row.active for row in rows),
        total="1 run" if total == 1 else f"{total:,} runs",
        empty=not rows and not filtered and asked.cursor is None,
    )


def run_row(info: RunInfo, delivered: Delivered, rate: LiveRate | None) -> RunRow:
    """A run as one line of the list."""
    # An open-ended run is shown as far as it has come, and one epoch more.
    epochs = info.epochs or 1 + delivered.batches // max(1, info.batches)
    batches = max(1, info.batches * epochs)
    parts = (delivered.cpu, delivered.csd, delivered.taken_over)
    cpu, csd, taken_over = (min(100.0, 100 * part / batches) for part in parts)
    percent = min(100, 100 * delivered.batches // batches)
    per_image, how = joules_per_image(info)
    wait = rate.wait_share if rate else info.wait_share
    emulated = Prong.CSD.value in info.emulated
    return RunRow(
        key=info.id.hex,
        name=info.name,
        state=info.state.value,
        active=info.state in ACTIVE,
        what=f"{info.dataset} · {info.strategy} · {info.pipeline}",
        left=f"{info.samples_left:,} samples left" if info.samples_left else None,
        percent=percent,
        cpu_percent=round(cpu, 1),
        csd_percent=round(min(csd, 100 - cpu), 1),
        taken_over_percent=round(min(taken_over, 100 - cpu - csd), 1),
        progress=(
            f"{percent} % of all batches delivered: {cpu:.0f} % made by the CPU, "
            f"{csd:.0f} % by the {'emulated ' if emulated else ''}CSD"
            + (f", {taken_over:.0f} % by the run before" if taken_over else "")
        ),
        emulated=emulated,
        images_per_s=_rate(info, rate),
        live=rate is not None,
        wait="—" if wait is None else f"{100 * wait:.1f} %",
        millijoules=_millijoules(per_image),
        provenance=None if per_image is None else how,
        bad=f"{info.bad_samples:,}",
        created_at=info.created_at,
        duration=_lasted(info),
    )


def glance(devices: list[DeviceInfo], datasets: int) -> tuple[str, str]:
    """Devices and datasets in a few words each."""
    live = [device for device in devices if device.live]
    emulated = sum(device.emulated for device in live)
    words = f"{len(live)} device{'' if len(live) == 1 else 's'} live"
    return (
        f"{words} ({emulated} emulated)" if emulated else words,
        f"{datasets:,} dataset{'' if datasets == 1 else 's'}",
    )


def address(asked: RunListQuery, **changes: object) -> str:
    """The list as asked for with some changes, from its first page on."""
    changed = asked.model_copy(update={"cursor": None, **changes})
    given = _chosen(changed)
    if (changed.sort, changed.ascending) != (RunSort.CREATED, False):
        given |= {"sort": changed.sort.value, "order": "up" if changed.ascending else "down"}
    if changed.cursor:
        given["cursor"] = changed.cursor
    return f"/?{urlencode(given, doseq=True)}" if given else "/"


def _chosen(asked: RunListQuery) -> dict[str, object]:
    """What narrows the list down, as its address says it."""
    found: dict[str, object] = {
        "state": [state.value for state in asked.state],
        "search": asked.search,
        "dataset": asked.dataset,
        "strategy": asked.strategy,
        "pipeline": asked.pipeline,
        "since": day(asked.after),
        "until": day(None if asked.before is None else asked.before - _DAY_S),
    }
    return {name: value for name, value in found.items() if value}


def day(at: float | None) -> str:
    """The day of a time (UTC) as an input of a form has it."""
    return "" if at is None else time.strftime("%Y-%m-%d", time.gmtime(at))


def _chip(state: RunState, count: int, asked: RunListQuery) -> StateChip:
    chosen = state in asked.state
    states = [one for one in asked.state if one is not state] if chosen else [*asked.state, state]
    return StateChip(state.value, f"{count:,}", address(asked, state=states), chosen)


_COLUMNS = {
    RunSort.NAME: ("run", False),
    RunSort.STATE: ("state", False),
    RunSort.CREATED: ("created", True),
    RunSort.DURATION: ("duration", True),
}


def _column(sort: RunSort, asked: RunListQuery) -> Column:
    label, numeric = _COLUMNS[sort]
    if asked.sort is not sort:
        # Names and states from A on, times and durations from the newest and longest on.
        return Column(label, address(asked, sort=sort, ascending=not numeric), "none", numeric)
    order = "ascending" if asked.ascending else "descending"
    return Column(label, address(asked, ascending=not asked.ascending), order, numeric)


def _filters(asked: RunListQuery, choices: RunChoices) -> Filters:
    selects = [
        ("dataset", asked.dataset, choices.datasets),
        ("strategy", asked.strategy, choices.strategies),
        ("pipeline", asked.pipeline, choices.pipelines),
    ]
    chosen = _chosen(asked)
    return Filters(
        search=asked.search or "",
        states=[state.value for state in asked.state],
        sort=asked.sort.value,
        ascending=asked.ascending,
        selects=[(name, value or "", known) for name, value, known in selects],
        since=str(chosen.get("since", "")),
        until=str(chosen.get("until", "")),
    )


def _rate(info: RunInfo, rate: LiveRate | None) -> str:
    """What trainers receive now; of a run that is over, what they received on average."""
    return per_second(info.delivered_images_per_s if rate is None else rate.images_per_s)


def _millijoules(joules: float | None) -> str:
    if joules is None:
        return "—"
    return f"{1000 * joules:,.2f}" if joules >= 1e-5 or not joules else "< 0.01"


def _seconds(info: RunInfo) -> float | None:
    if info.started_at is None:
        return None
    return (info.ended_at or time.time()) - info.started_at


def _lasted(info: RunInfo) -> str:
    seconds = _seconds(info)
    if seconds is None:
        return "—"
    return duration(seconds) if seconds >= 1 else "under 1 s"
