"""What workers report: a lease started, finished or failed."""

from fastapi import APIRouter

from ddlp.core.messages import Claim, Claimed, Commit, Failure
from ddlp.server.context import ContextDep, done

router = APIRouter(prefix="/leases", tags=["leases"])


@router.post("/claim")
async def claim(body: Claim, context: ContextDep) -> Claimed:
    """Start on a lease; refused when its token is stale."""
    claimed: Claimed = await done(
        context.dispatcher.call(lambda board, _, now: board.claim(body, now))
    )
    return claimed


@router.post("/commit")
async def commit(body: Commit, context: ContextDep) -> None:
    """Finish a lease; refused when its token is stale."""
    await done(context.dispatcher.call(lambda board, _, now: board.commit(body, now)))


@router.post("/fail")
async def fail(body: Failure, context: ContextDep) -> None:
    """Give a lease back with the reason."""
    await done(context.dispatcher.call(lambda board, _, now: board.fail(body)))
