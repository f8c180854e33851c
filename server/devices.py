"""Devices: their rows in the database and on the board."""

import uuid

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.energy import PowerModel
from ddlp.core.messages import DeviceInfo, DeviceRegister
from ddlp.core.settings import Settings
from ddlp.core.types import DeviceKind, Prong
from ddlp.server.board import Board, LiveDevice
from ddlp.server.ledger import audit
from ddlp.server.models import Device


def register(board: Board, session: Session, body: DeviceRegister, now: float) -> None:
    """Take a device in, or an earlier one under the same name back."""
    known = session.get(Device, body.name)
    values = body.model_dump(exclude={"power", "prong", "kind"})
    row = Device(
        **values,
        prong=body.prong.value,
        kind=body.kind.value,
        active_w=body.power.active_w,
        power_source=body.power.source,
        registered_at=known.registered_at if known else now,
        last_seen_at=now,
    )
    board.register(LiveDevice.of(row), now)
    session.merge(row)
    audit(session, "device.register", body.name, now, kind=body.kind.value, slots=body.slots)


def heartbeat(
    board: Board, session: Session, name: str, incarnation: uuid.UUID, now: float
) -> None:
    """Note a sign of life."""
    board.heard_of(name, incarnation, now)
    session.get_one(Device, name).last_seen_at = now


def list_all(session: Session, settings: Settings, now: float) -> list[DeviceInfo]:
    """All devices that ever registered, by name."""
    rows = session.scalars(select(Device).order_by(Device.name))
    return [_info(row, now - row.last_seen_at <= settings.device_timeout_s) for row in rows]


def _info(row: Device, live: bool) -> DeviceInfo:
    kind = DeviceKind(row.kind)
    return DeviceInfo(
        name=row.name,
        prong=Prong(row.prong),
        kind=kind,
        emulated=kind.emulated,
        slots=row.slots,
        host=row.host,
        engine=row.engine,
        store=row.store,
        power=PowerModel(active_w=row.active_w, source=row.power_source),
        live=live,
        last_seen_at=row.last_seen_at,
    )
