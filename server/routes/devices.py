"""Devices."""

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from ddlp.core.messages import DeviceInfo, DeviceRegister, Heartbeat, Orders, QueueKey
from ddlp.server import device_figures, devices, served_hosts
from ddlp.server.context import Context, ContextDep, done
from ddlp.server.parameters import Named
from ddlp.server.security import address_of

router = APIRouter(prefix="/devices", tags=["devices"])


@router.get("")
async def list_all(context: ContextDep) -> list[DeviceInfo]:
    """All devices that ever registered: what they are, whether they live, what they do now."""
    return await read_all(context)


async def read_all(context: Context) -> list[DeviceInfo]:
    """All devices with what they do now; only the board is looked at in the dispatcher's thread."""
    seen = await done(
        context.dispatcher.call(lambda board, _, now: device_figures.look(board, now))
    )

    def read() -> list[DeviceInfo]:
        with context.database.session() as session:
            now = context.dispatcher.now()
            return devices.list_all(session, context.settings, now, seen)

    return await run_in_threadpool(read)


@router.post("", status_code=201)
async def register(body: DeviceRegister, request: Request, context: ContextDep) -> None:
    """Offer a device; from now on it is given work."""
    served_hosts.check(context.settings, body, address_of(request.scope))
    arrived_at = context.dispatcher.now()
    await done(
        context.dispatcher.call(
            lambda board, s, now: devices.register(board, s, body, now, arrived_at)
        )
    )


@router.post("/queue-key")
async def queue_key(context: ContextDep) -> QueueKey:
    """The secret with which messages to workers are signed, for those who may work."""
    return QueueKey(key=context.ownership.owner.queue_key)


@router.post("/{name}/heartbeat")
async def heartbeat(name: Named, body: Heartbeat, context: ContextDep) -> Orders:
    """A sign of life; the answer says what the device can clear out of its store."""
    orders: Orders = await done(
        context.dispatcher.call(lambda board, s, now: devices.heartbeat(board, s, name, body, now))
    )
    return orders


@router.post("/{name}/drain", status_code=204)
async def drain(name: Named, context: ContextDep) -> None:
    """Let a device finish what it holds and give it nothing new, until it is resumed.

    The other devices of its prong go on; where there is none, the other prong takes over. It stays
    drained when it, or the server, is started anew.
    """
    await done(context.dispatcher.call(lambda board, s, now: devices.drain(board, s, name, now)))


@router.post("/{name}/resume", status_code=204)
async def resume(name: Named, context: ContextDep) -> None:
    """Give a drained device work again."""
    await done(context.dispatcher.call(lambda board, s, now: devices.resume(board, s, name, now)))


@router.delete("/{name}", status_code=204)
async def remove(name: Named, context: ContextDep) -> None:
    """Forget a device that has fallen silent; one that is alive is refused."""
    await done(context.dispatcher.call(lambda board, s, now: devices.remove(board, s, name, now)))
