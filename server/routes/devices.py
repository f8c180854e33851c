"""Devices."""

from fastapi import APIRouter

from ddlp.core.messages import DeviceInfo, DeviceRegister, Heartbeat, Orders
from ddlp.server import devices
from ddlp.server.context import ContextDep, SessionDep, done

router = APIRouter(prefix="/devices", tags=["devices"])


@router.get("")
def list_all(session: SessionDep, context: ContextDep) -> list[DeviceInfo]:
    """All devices that ever registered, and whether they are alive."""
    return devices.list_all(session, context.settings, context.dispatcher.now())


@router.post("", status_code=201)
async def register(body: DeviceRegister, context: ContextDep) -> None:
    """Offer a device; from now on it is given work."""
    await done(context.dispatcher.call(lambda board, s, now: devices.register(board, s, body, now)))


@router.post("/{name}/heartbeat")
async def heartbeat(name: str, body: Heartbeat, context: ContextDep) -> Orders:
    """A sign of life; the answer says what the device can clear out of its store."""
    orders: Orders = await done(
        context.dispatcher.call(lambda board, s, now: devices.heartbeat(board, s, name, body, now))
    )
    return orders
