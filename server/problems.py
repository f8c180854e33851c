"""Errors as they are told to programs: problem details of RFC 9457, with a sentence for people."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from ddlp.core.errors import DdlpError

MEDIA_TYPE = "application/problem+json"
TYPES = "urn:ddlp:problem:"
"""Before the kind of an error: programs can rely on it."""

Fields = Sequence[Mapping[str, str]]


def details(error: DdlpError, fields: Fields = ()) -> dict[str, Any]:
    """What is told of an error; `fields` are the values that it is about."""
    told = {
        "type": TYPES + error.kind,
        "title": error.kind.replace("-", " ").capitalize(),
        "status": error.status,
        "detail": str(error),
    }
    return {**told, "errors": list(fields)} if fields else told


def as_bytes(error: DdlpError) -> bytes:
    """The same as it is sent."""
    return json.dumps(details(error)).encode()


def answer(
    error: DdlpError, fields: Fields = (), headers: Mapping[str, str] | None = None
) -> Response:
    """The same as an answer."""
    body = json.dumps(details(error, fields)).encode()
    return Response(body, error.status, dict(headers or {}), MEDIA_TYPE)
