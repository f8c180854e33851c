"""What workers report, in groups: leases started, finished or failed."""

from fastapi import APIRouter, Response

from ddlp.core.messages import Claim, Claimed, Reported, Reports
from ddlp.server import work
from ddlp.server.context import ContextDep, as_json, done

router = APIRouter(prefix="/leases", tags=["leases"])


@router.post("/claim", response_model=Claimed)
async def claim(body: Claim, context: ContextDep) -> Response:
    """Start on leases; one whose token is stale, or that another process has, is denied."""
    claimed: Claimed = await done(
        context.dispatcher.call(lambda board, _, now: work.claim(board, body, now))
    )
    return as_json(claimed)


@router.post("/report", response_model=Reported)
async def report(body: Reports, context: ContextDep) -> Response:
    """Finish leases or give them back; what came too late is denied."""
    reported: Reported = await done(
        context.dispatcher.call(lambda board, _, now: work.report(board, body, now))
    )
    return as_json(reported)
