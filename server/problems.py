"""Errors as they are told to programs: problem details of RFC 9457, with a sentence for people."""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ddlp.core.errors import (
    DdlpError,
    InvalidInput,
    NotFound,
    TooMany,
    WrongMethod,
    from_status,
)
from ddlp.server.attempts import WINDOW_S
from ddlp.server.database import is_down
from ddlp.server.failures import told

MEDIA_TYPE = "application/problem+json"
TYPES = "urn:ddlp:problem:"
"""Before the kind of an error: programs can rely on it."""

TOLD = (DdlpError, RequestValidationError, SQLAlchemyError, HTTPException, Exception)

Fields = Sequence[Mapping[str, str]]

log = logging.getLogger(__name__)


def install(app: FastAPI) -> None:
    """Have every error of an application told in this way."""
    for kind in TOLD:
        app.add_exception_handler(kind, tell)


async def tell(request: Request, error: Exception) -> Response:
    """The answer to a request that met an error."""
    told = error_of(request, error)
    headers = {"Allow": _allowed(request) or "GET"} if isinstance(told, WrongMethod) else None
    return answer(told, fields_of(error), headers)


def error_of(request: Request, error: Exception) -> DdlpError:
    """Any error as one of ours; what is not for others stays in the log."""
    if isinstance(error, DdlpError):
        return error
    if isinstance(error, RequestValidationError):
        return InvalidInput("; ".join(f"{f['field']}: {f['detail']}" for f in fields_of(error)))
    if isinstance(error, HTTPException):
        if error.status_code == NotFound.status:
            return NotFound(f"there is nothing at {request.url.path}; see /openapi.json")
        if error.status_code == WrongMethod.status:
            return WrongMethod(
                f"{request.method} is not taken at {request.url.path}; "
                f"use: {_allowed(request) or 'GET'}"
            )
        return from_status(error.status_code, str(error.detail))
    if isinstance(error, SQLAlchemyError) and not is_down(error):
        log.error("a request met an error of the database", exc_info=error)
    return told(error)  # the log says which: whoever calls this raises it again


def _allowed(request: Request) -> str:
    """What can be asked of an address; a route without parameters goes before others."""
    paths = request.app.openapi()["paths"]
    found = [path for path in paths if _pattern(path).fullmatch(request.url.path)]
    found = [path for path in found if "{" not in path] or found
    return ", ".join(sorted({method.upper() for path in found for method in paths[path]}))


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile("[^/]+".join(map(re.escape, re.split(r"\{\w+\}", path))))


def fields_of(error: Exception) -> list[dict[str, str]]:
    """The values that an error is about."""
    if not isinstance(error, RequestValidationError):
        return []
    found = []
    for problem in error.errors():
        place, *path = map(str, problem["loc"])
        if problem["type"] == "json_invalid":
            path = []
        words = problem["msg"].removeprefix("Value error, ")
        found.append({"in": place, "field": ".".join(path) or f"the {place}", "detail": words})
    return found


def details(error: DdlpError, fields: Fields = ()) -> dict[str, Any]:
    """What is told of an error."""
    told = {
        "type": TYPES + error.kind,
        "title": error.kind.replace("-", " ").capitalize(),
        "status": error.status,
        "detail": str(error),
    }
    return {**told, "errors": list(fields)} if fields else told


def as_bytes(error: DdlpError, fields: Fields = ()) -> bytes:
    """The same as it is sent."""
    return json.dumps(details(error, fields)).encode()


def answer(
    error: DdlpError, fields: Fields = (), headers: Mapping[str, str] | None = None
) -> Response:
    """The same as an answer."""
    own = dict(headers or {})
    if isinstance(error, TooMany):
        own["Retry-After"] = f"{WINDOW_S:.0f}"
    elif error.status == 401:
        own["WWW-Authenticate"] = "Bearer"
    return Response(as_bytes(error, fields), error.status, own, MEDIA_TYPE)
