"""The audit: who did what."""

from typing import Annotated

from fastapi import APIRouter, Query

from ddlp.core.messages.audit import AuditInfo
from ddlp.server import audit
from ddlp.server.context import SessionDep
from ddlp.server.parameters import Before, Limit

router = APIRouter(prefix="/audit", tags=["audit"])


@router.get("")
def list_all(
    session: SessionDep,
    subject: Annotated[
        str | None,
        Query(max_length=128, description="Only of the run, dataset, device … so named."),
    ] = None,
    action: Annotated[
        str | None,
        Query(max_length=64, description="Only this action (run.paused), or its group (run)."),
    ] = None,
    before: Before = None,
    limit: Limit = 100,
) -> list[AuditInfo]:
    """What was done, the newest first; ask for the next page with the last one's id."""
    return audit.page(session, subject, action, before, limit)
