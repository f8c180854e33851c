"""The first start: everything that a first look needs, in one call."""

from fastapi import APIRouter, Request

from ddlp.core.messages.demo import DemoCreate, DemoInfo
from ddlp.server.context import ContextDep
from ddlp.server.demo import own_url
from ddlp.server.idempotency import OnceDep

router = APIRouter(prefix="/demo", tags=["demo"])


@router.post("", status_code=202)
def begin(body: DemoCreate, request: Request, context: ContextDep, once: OnceDep) -> DemoInfo:
    """Draw images, scan them, make a run and train a small model on it; ask again to follow it.

    Asking while it is under way starts nothing anew.
    """
    port = (request.scope.get("server") or ("", context.settings.port))[1]
    url = own_url(context.settings, port)
    return once.answer_after(context.database, DemoInfo, lambda: context.demo.begin(body, url))


@router.get("")
def show(context: ContextDep) -> DemoInfo:
    """How far it is; once it has a run, that is named."""
    return context.demo.info()
