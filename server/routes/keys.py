"""Keys."""

import time

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from ddlp.core.messages.keys import KeyCreate, KeyInfo, KeyMade
from ddlp.server import keys
from ddlp.server.context import ContextDep, SessionDep
from ddlp.server.idempotency import OnceDep
from ddlp.server.parameters import Named

router = APIRouter(prefix="/keys", tags=["keys"])


@router.get("")
def list_all(session: SessionDep) -> list[KeyInfo]:
    """All keys there are and were, the newest first; the keys themselves are not kept."""
    return keys.list_all(session)


@router.post("", status_code=201)
async def create(body: KeyCreate, context: ContextDep, once: OnceDep) -> KeyMade:
    """Make a key; this answer is the only place where it can be read."""

    def make() -> KeyMade:
        with context.database.session() as session:
            made, _ = once.answer(
                session, KeyMade, lambda: keys.add(session, body.name, body.scope, time.time())
            )
        context.keyring.read()
        return made

    return await run_in_threadpool(make)


@router.post("/{name}/revoke")
async def revoke(name: Named, context: ContextDep) -> KeyInfo:
    """Refuse a key from now on, for good."""

    def end() -> KeyInfo:
        with context.database.session() as session:
            ended = keys.revoke(session, name, time.time())
        context.keyring.read()
        return ended

    return await run_in_threadpool(end)
