"""Meters of hosts: what they count, and what becomes of it."""

from fastapi import APIRouter

from ddlp.core.messages import HostSample
from ddlp.core.messages.reports import HostMeterInfo
from ddlp.server import reports
from ddlp.server.context import ContextDep, SessionDep, done

router = APIRouter(prefix="/meters", tags=["energy"])


@router.post("", status_code=204)
async def take(body: HostSample, context: ContextDep) -> None:
    """A host says what its meters have counted since its sampler was started."""
    await done(
        context.dispatcher.call(
            lambda board, session, now: board.charge(
                session, board.energy.take_sample(session, body, now), now
            )
        )
    )


@router.get("")
def list_all(session: SessionDep) -> list[HostMeterInfo]:
    """All meters, with what was idle, what runs used, and what other programs did."""
    return reports.hosts(session)
