"""View models of devices and of the meters of hosts."""

from dataclasses import dataclass
from urllib.parse import quote

from ddlp.core.messages import DeviceInfo, RoomInfo
from ddlp.core.messages.reports import HostMeterInfo
from ddlp.core.types import DeviceHealth, DeviceKind, Prong, Provenance
from ddlp.core.units import duration, joules, size

_KINDS = {
    DeviceKind.HOST: "CPU workers of a host",
    DeviceKind.CSD: "computational storage",
    DeviceKind.EMULATED_CSD: "computational storage",
}
_CLOCK_S = 2.0
"""A clock that is off by less is not worth a word."""
_PRONGS = {Prong.CPU: "from the head", Prong.CSD: "from the tail"}


@dataclass(frozen=True)
class Room:
    """How full a store is, in words and as a share."""

    words: str
    percent: int | None


@dataclass(frozen=True)
class DeviceAction:
    """Something that can be done to a device."""

    label: str
    send: str
    """Method and address of the call."""
    question: str | None = None
    danger: bool = False


@dataclass(frozen=True)
class DeviceView:
    """One device on the page."""

    name: str
    anchor: str
    prong: str
    end: str
    kind: str
    emulated: bool
    host: str
    slots: str
    busy: str
    engine: str
    store: str
    room: Room
    rate: str
    made: str
    watts: str
    provenance: str | None
    method: str
    health: str
    health_words: str
    last_seen_at: float
    drained_at: float | None
    clock: str
    """How far its host's clock is off; empty where that is too little to matter."""
    dropped: str
    """How many messages it dropped that the server had not signed; empty where none."""
    runs: list[str]
    actions: list[DeviceAction]


@dataclass(frozen=True)
class MeterView:
    """One meter of a host."""

    host: str
    name: str
    watts: str
    joules: str
    runs: str
    idle: str
    other: str
    period: str
    provenance: str
    method: str
    updated_at: float


def device_view(info: DeviceInfo) -> DeviceView:
    """What the page says of a device."""
    known = info.draws.watts is not None
    return DeviceView(
        name=info.name,
        anchor=f"device-{quote(info.name, safe='')}",
        prong=info.prong.value,
        end=_PRONGS[info.prong],
        kind=_KINDS[info.kind],
        emulated=info.emulated,
        host=info.host,
        slots="1 slot" if info.slots == 1 else f"{info.slots:,} slots",
        busy="" if info.busy is None else f"{100 * info.busy:.0f} % busy",
        engine=info.engine,
        store=info.store,
        room=_room(info.room),
        rate="—" if info.images_per_s is None else f"{info.images_per_s:,.0f}",
        made="—" if info.images_made is None else f"{info.images_made:,}",
        watts=_watts(info.draws.watts),
        provenance=info.draws.provenance.value if known else None,
        method=info.draws.method,
        health=info.health.value,
        health_words=info.health_words,
        last_seen_at=info.last_seen_at,
        drained_at=info.drained_at,
        clock=_clock(info.clock_ahead_s),
        dropped=_dropped(info.dropped_messages or 0),
        runs=info.runs,
        actions=_actions(info),
    )


def _clock(ahead_s: float | None) -> str:
    if ahead_s is None or abs(ahead_s) < _CLOCK_S:
        return ""
    return f"Its clock is {duration(abs(ahead_s))} {'ahead' if ahead_s > 0 else 'behind'}."


def _dropped(messages: int) -> str:
    many = "" if messages == 1 else "s"
    return f"{messages:,} unsigned message{many} dropped" if messages else ""


def _room(room: RoomInfo) -> Room:
    """Free of all that it takes; of a store without an end, only what lies there."""
    used, free = room.used_bytes, room.free_bytes
    if used is None and free is None:
        return Room("—", None)
    if free is None:
        return Room(f"{size(used or 0)} used", None)
    if used is None:
        return Room(f"{size(free)} free", None)
    whole = used + free
    percent = 100 * used // whole if whole else None
    return Room(f"{size(free)} free of {size(whole)}", percent)


def _watts(watts: float | None) -> str:
    if watts is None:
        return "—"
    return f"{watts:,.0f} W" if watts >= 100 else f"{watts:.1f} W"


def _actions(info: DeviceInfo) -> list[DeviceAction]:
    path = f"/api/v1/devices/{quote(info.name, safe='')}"
    if info.drained_at is None:
        drain = DeviceAction(
            "Drain",
            f"POST {path}/drain",
            f"Drain {info.name}? It finishes what it holds and is given nothing new until it is "
            "resumed; other devices take over its share.",
        )
        found = [drain] if info.live else []
    else:
        found = [DeviceAction("Resume", f"POST {path}/resume")]
    if info.health is DeviceHealth.SILENT:
        found.append(
            DeviceAction(
                "Remove",
                f"DELETE {path}",
                f"Remove {info.name}? It is forgotten here; if its worker is started again, it "
                "registers anew.",
                danger=True,
            )
        )
    return found


def meter_view(info: HostMeterInfo) -> MeterView:
    """What the page says of a meter; of one that knows nothing, no figure."""
    known = info.provenance is not Provenance.UNAVAILABLE and info.period_s > 0
    return MeterView(
        host=info.host,
        name=info.name,
        watts=_watts(info.joules / info.period_s if known else None),
        joules=joules(info.joules if known else None),
        runs=joules(info.runs_j if known else None),
        idle=joules(info.idle_j if known else None),
        other=joules(info.other_j if known else None),
        period=duration(info.period_s),
        provenance=info.provenance.value,
        method=info.method,
        updated_at=info.updated_at,
    )
