"""Signing a browser in and out: the key is kept in a cookie that scripts cannot read."""

import time

from fastapi import APIRouter, Request, Response

from ddlp.core.errors import KeyRefused
from ddlp.core.messages.keys import SignedIn, SignIn
from ddlp.server.context import ContextDep
from ddlp.server.identity import acting_as, current
from ddlp.server.ledger import audit
from ddlp.server.security import COOKIE, address_of

router = APIRouter(prefix="/session", tags=["keys"])


@router.post("")
def sign_in(body: SignIn, request: Request, response: Response, context: ContextDep) -> SignedIn:
    """Have the browser show this key from now on."""
    key = body.key.strip()
    address = address_of(request.scope)
    found = context.keyring.check(key) or context.keyring.find(key, address)
    if found is None:
        raise KeyRefused("this key is not known or was revoked; check that it was copied whole")
    with acting_as(found), context.database.session() as session:
        audit(session, "session.open", found.name, time.time())
    response.set_cookie(COOKIE, key, httponly=True, samesite="strict", secure=_is_private(request))
    return SignedIn(name=found.name, scope=found.scope)


@router.delete("", status_code=204)
def sign_out(request: Request, response: Response, context: ContextDep) -> None:
    """Have the browser forget its key; the key itself stays good."""
    leaving = current()
    if leaving is not None:
        with context.database.session() as session:
            audit(session, "session.close", leaving.name, time.time())
    response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=_is_private(request))


def _is_private(request: Request) -> bool:
    """Whether the browser speaks TLS; a proxy in between may do that for this server."""
    return "https" in (request.url.scheme, request.headers.get("origin", "").split(":")[0])
