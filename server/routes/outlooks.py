"""What a run would come to, before it is made."""

from typing import Annotated, Any

from fastapi import APIRouter, Body

from ddlp.core.messages.outlook import RunForecast
from ddlp.server import outlooks
from ddlp.server.context import ContextDep, SessionDep

router = APIRouter(prefix="/runs", tags=["runs"])


@router.post("/forecast")
def forecast(
    body: Annotated[dict[str, Any], Body()], session: SessionDep, context: ContextDep
) -> RunForecast:
    """What this run would come to on the devices that live now: rates, times, joules, room.

    The body has the fields of `POST /runs`, and any of them may be missing or wrong: what stands
    in its way comes back as a list by field, never as an error. Nothing is made.
    """
    return outlooks.forecast(session, context.settings, body, context.dispatcher.now())
