"""The pages for keys and for signing in."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from ddlp.server import identity, keys
from ddlp.server.context import ContextDep, SessionDep
from ddlp.web.key_views import keys_view, sign_in_view
from ddlp.web.templating import templates

router = APIRouter(include_in_schema=False)


@router.get("/keys")
def index(request: Request, session: SessionDep, context: ContextDep) -> HTMLResponse:
    """All keys, and a form for a new one."""
    view = keys_view(keys.list_all(session), context.settings, identity.current())
    return templates.TemplateResponse(request, "keys.html", {"keys": view})


@router.get("/signin")
def sign_in(
    request: Request,
    context: ContextDep,
    wanted: Annotated[str, Query(alias="next", max_length=2000)] = "/",
) -> HTMLResponse:
    """A form that takes a key."""
    view = sign_in_view(wanted, context.settings.keys == "required", identity.current())
    return templates.TemplateResponse(request, "signin.html", {"sign_in": view})
