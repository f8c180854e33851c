"""Whether the server is up, and whether it can work."""

from fastapi import APIRouter, Response

from ddlp.core.errors import DdlpError
from ddlp.server.context import ContextDep

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"model": dict[str, str], "description": "Not ready."}})
def readyz(context: ContextDep, response: Response) -> dict[str, str]:
    """The database takes writes, broker and dispatcher work; 503 names the one that does not."""
    checks = {
        "database": _database(context),
        "broker": _broker(context),
        "dispatcher": "ok"
        if context.dispatcher.alive
        else "its thread has ended; restart the server",
    }
    if any(state != "ok" for state in checks.values()):
        response.status_code = 503
    return checks


def _database(context: ContextDep) -> str:
    """Whether this server's last renewal of its ownership, every other second, was written."""
    return context.ownership.refusal or "ok"


def _broker(context: ContextDep) -> str:
    try:
        context.broker.check()
    except DdlpError as error:
        return str(error)
    return "ok"
