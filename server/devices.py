"""Devices: their rows in the database and on the board."""

import uuid
from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.energy import EnergyReading
from ddlp.core.errors import Conflict, NotFound
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.messages import DeviceInfo, DeviceRegister, Heartbeat, Orders, RoomInfo
from ddlp.core.settings import Settings
from ddlp.core.store import StoreAddress
from ddlp.core.types import DeviceKind, Prong, RunState
from ddlp.server.board import Board, LiveDevice, power_of
from ddlp.server.device_figures import UNSEEN, Seen, health_of
from ddlp.server.energy import Drive
from ddlp.server.ledger import audit
from ddlp.server.models import Device, Run

_STRANGE_S = 86_400.0
"""What another server's run may leave untouched for so long is removed."""


def register(
    board: Board,
    session: Session,
    body: DeviceRegister,
    now: float,
    arrived_at: float | None = None,
) -> None:
    """Take a device in, or an earlier one under the same name back."""
    arrived_at = now if arrived_at is None else arrived_at
    store = StoreAddress.parse(body.store).url
    known = session.get(Device, body.name)
    values = body.model_dump(exclude={"power", "prong", "kind", "store", "clock_s"})
    row = Device(
        **values,
        store=store,
        prong=body.prong.value,
        kind=body.kind.value,
        active_w=body.power.active_w,
        idle_w=body.power.idle_w,
        power_source=body.power.source,
        registered_at=known.registered_at if known else now,
        drained_at=known.drained_at if known else None,
        last_seen_at=now,
        clock_ahead_s=None if body.clock_s is None else round(body.clock_s - arrived_at, 3),
    )
    board.register(LiveDevice.of(row), now)
    session.merge(row)
    audit(session, "device.register", body.name, now, kind=body.kind.value, slots=body.slots)


def heartbeat(board: Board, session: Session, name: str, body: Heartbeat, now: float) -> Orders:
    """Note a sign of life; tells the device what it can clear away."""
    device = board.heard_of(name, body.incarnation, now)
    row = session.get_one(Device, name)
    row.last_seen_at = now
    device.dropped_messages = body.dropped_messages
    if body.room is not None:
        device.room, row.room = body.room, body.room.model_dump()
    if body.energy is not None:
        row.energy = body.energy.model_dump(mode="json")
        drive = Drive(name, device.slots, device.power.idle_w)
        board.charge(session, board.energy.take_drive(drive, body.energy, now), now)
    discard = [*device.told, *device.discard]
    device.told, device.discard = device.discard, []
    return Orders(
        over=_over(board, session, body.stored),
        discard=discard,
        drained=device.drained_at is not None,
    )


def drain(board: Board, session: Session, name: str, now: float) -> None:
    """Let a device finish what it holds, and give it nothing new; to say so again is harmless."""
    device = _find(board, name)
    if device.drained_at is None:
        board.drain(device, now)
        session.get_one(Device, name).drained_at = now
        audit(session, "device.drain", name, now)


def resume(board: Board, session: Session, name: str, now: float) -> None:
    """Give a drained device work again."""
    device = _find(board, name)
    if device.drained_at is not None:
        device.drained_at = session.get_one(Device, name).drained_at = None
        audit(session, "device.resume", name, now)


def remove(board: Board, session: Session, name: str, now: float) -> None:
    """Forget a device that has fallen silent; should it come back, it registers as a new one."""
    device = _find(board, name)
    if board.is_live(device, now):
        raise Conflict(
            f"device {name} is alive on {device.host}; stop its worker, and remove it once it has "
            f"been silent for {board.settings.device_timeout_s:g} s, or drain it instead"
        )
    board.forget(device)
    session.delete(session.get_one(Device, name))
    audit(session, "device.remove", name, now, kind=device.kind.value, host=device.host)


def _find(board: Board, name: str) -> LiveDevice:
    device = board.devices.get(name)
    if device is None:
        raise NotFound(f"there is no device {name!r}; see all of them with: ddlp device list")
    return device


def _over(board: Board, session: Session, stored: Mapping[uuid.UUID, float]) -> list[uuid.UUID]:
    """Which runs have no use for what lies in a store.

    One that is not known here may be another server's; it is only removed once nothing of it has
    changed for a day.
    """
    known = board.runs.keys() | board.deleted
    deleted = [run_id for run_id in stored if run_id in board.deleted]
    asked = [run_id for run_id in stored if run_id not in known]
    if not asked:
        return deleted
    rows = session.execute(select(Run.id, Run.state).where(Run.id.in_(asked))).all()
    states = {run_id: RunState(state) for run_id, state in rows}
    return deleted + [
        run_id
        for run_id in asked
        if states.get(run_id) in TERMINAL or (run_id not in states and stored[run_id] > _STRANGE_S)
    ]


def list_all(
    session: Session, settings: Settings, now: float, seen: Mapping[str, Seen] = UNSEEN
) -> list[DeviceInfo]:
    """All devices that ever registered, by name; what they do now where it was looked at."""
    rows = session.scalars(select(Device).order_by(Device.name))
    return [_info(row, settings.device_timeout_s, now, seen.get(row.name)) for row in rows]


def _info(row: Device, timeout_s: float, now: float, seen: Seen | None) -> DeviceInfo:
    kind = DeviceKind(row.kind)
    live = now - row.last_seen_at <= timeout_s
    found = DeviceInfo(
        name=row.name,
        prong=Prong(row.prong),
        kind=kind,
        emulated=kind.emulated,
        slots=row.slots,
        host=row.host,
        engine=row.engine,
        store=row.store,
        serves=row.serves,
        room=RoomInfo(**row.room),
        power=power_of(row),
        energy=EnergyReading(**row.energy) if row.energy else None,
        live=live,
        last_seen_at=row.last_seen_at,
        registered_at=row.registered_at,
        drained_at=row.drained_at,
        clock_ahead_s=row.clock_ahead_s,
    )
    found = found.model_copy(update=vars(seen) if seen else {})
    health, said = health_of(found, seen.holds if seen else 0, timeout_s)
    return found.model_copy(update={"health": health, "health_words": said})
