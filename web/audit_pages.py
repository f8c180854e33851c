"""The audit page: who did what to what, and when."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from ddlp.server import audit
from ddlp.server.context import SessionDep
from ddlp.server.parameters import Before
from ddlp.web.audit_views import Asked, audit_view
from ddlp.web.templating import templates

_SHOWN = 50

router = APIRouter(include_in_schema=False)


@router.get("/audit")
def index(
    request: Request,
    session: SessionDep,
    subject: Annotated[str, Query(max_length=128)] = "",
    action: Annotated[str, Query(max_length=64)] = "",
    before: Before = None,
) -> HTMLResponse:
    """A page of events, the newest first."""
    asked = Asked(subject.strip(), action.strip(), before)
    # One more than is shown tells whether there are older ones.
    found = audit.page(session, asked.subject or None, asked.action or None, before, _SHOWN + 1)
    values = {"audit": audit_view(asked, found, _SHOWN)}
    return templates.TemplateResponse(request, "audit.html", values)
