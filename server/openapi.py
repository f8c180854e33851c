"""Completes the description of the API: what each operation may answer, and what texts hold."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI

from ddlp.core import errors
from ddlp.server.problems import MEDIA_TYPE, TYPES

_API = "/api/v1"
_CHANGES = frozenset({"post", "delete"})
_NO_NUL = "^[^\\u0000]*$"
_COMPONENTS = "#/components/schemas/"

EVERY = (400, 401, 403, 408, 413, 422, 429, 431, 503)
"""What any request may be answered: it passes the same guard, and needs the database."""

OF_CHANGES = (415,)

OWN: dict[str, tuple[int, ...]] = {
    "POST /leases/claim": (409,),
    "POST /leases/report": (409,),
    "POST /runs/{ref}/attach": (404, 409),
    "POST /runs/{run_id}/begin": (404, 409),
    "POST /runs/{run_id}/alive": (404, 409),
    "POST /runs/{run_id}/leave": (409,),
    "POST /runs/{run_id}/feed": (404, 409),
    "POST /runs/{run_id}/damaged": (404, 409),
    "POST /devices": (409,),
    "POST /devices/{name}/heartbeat": (404,),
    "POST /devices/{name}/drain": (404,),
    "POST /devices/{name}/resume": (404,),
    "DELETE /devices/{name}": (404, 409),
    "GET /packings/{packing}": (404,),
    "GET /packings/{packing}/index": (404,),
    "POST /packings/{packing}/claim": (404, 409),
    "POST /packings/{packing}/news": (404, 409),
    "POST /packings/{packing}/report": (404, 409),
    "GET /runs/{ref}/export": (404, 409),
    "POST /runs": (404, 409),
    "POST /runs/{ref}/clone": (404, 409),
    "DELETE /runs/{ref}": (404, 409),
    "GET /runs/{ref}": (404,),
    "POST /runs/{ref}/replay": (404, 409),
    "POST /runs/{ref}/retry": (404, 409),
    "GET /runs/compare": (404,),
    "GET /runs/{ref}/work": (404,),
    "GET /runs/{ref}/index": (404,),
    "GET /runs/{ref}/epochs": (404,),
    "GET /runs/{ref}/epochs/{number}/certificate": (404, 409),
    "GET /runs/{ref}/verify": (404,),
    "GET /runs/{ref}/bad-samples": (404,),
    "GET /runs/{ref}/series": (404,),
    "GET /runs/{ref}/report": (404,),
    "GET /runs/{ref}/timeline": (404,),
    "POST /runs/{ref}/pause": (404, 409),
    "POST /runs/{ref}/resume": (404, 409),
    "POST /runs/{ref}/cancel": (404, 409),
    "POST /runs/{ref}/extend": (404, 409),
    "POST /runs/{ref}/strategy": (404, 409),
    "POST /runs/{ref}/limits": (404, 409),
    "GET /runs/{ref}/events": (404,),
    "POST /datasets": (409,),
    "GET /datasets/{name}": (404,),
    "DELETE /datasets/{name}": (404, 409),
    "POST /datasets/{name}/rescan": (404, 409),
    "POST /datasets/{name}/pack": (404, 409),
    "GET /datasets/{name}/forecast": (404, 409),
    "GET /datasets/{name}/rejected": (404, 409),
    "GET /datasets/{name}/statistics": (404, 409),
    "GET /datasets/{name}/quarantine": (404, 409),
    "GET /datasets/{name}/samples": (404, 409),
    "GET /datasets/{name}/samples/{sample}/thumbnail": (404, 409),
    "GET /datasets/{name}/preview": (404, 409),
    "GET /datasets/{name}/preview.png": (404, 409),
    "POST /pipelines": (409,),
    "DELETE /pipelines/{name}": (404, 409),
    "DELETE /roots": (404, 409),
    "POST /keys": (409,),
    "POST /keys/{name}/revoke": (404,),
}
"""What an operation may answer besides: the thing is not there, or its state does not allow it."""

CONTENT: dict[str, tuple[str, ...]] = {
    "GET /packings/{packing}/index": ("application/octet-stream",),
    "GET /runs/{ref}/index": ("application/octet-stream",),
    "GET /runs/{ref}/export": (
        "text/csv",
        "application/x-ndjson",
        "application/vnd.apache.parquet",
    ),
    "GET /runs/{ref}/events": ("text/event-stream",),
    "GET /datasets/{name}/samples/{sample}/thumbnail": ("image/jpeg", "image/svg+xml"),
    "GET /datasets/{name}/preview.png": ("image/png",),
    "GET /metrics": ("text/plain",),
}
"""What is answered that is no JSON."""

_ANY_BODY = {
    "required": True,
    "description": "Nothing is read of it; its type shows that no other site's form sent it.",
    "content": {"application/json": {"schema": {"type": "object"}}},
}

_SAID = {
    400: "The request cannot be understood, or is meant for another server.",
    401: "There is no key, or one that is not known.",
    403: "The key, the site or the place is not allowed to.",
    404: "There is no such thing.",
    408: "The request did not arrive in time.",
    409: "The current state does not allow it.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "A value cannot be used.",
    429: "Too many unknown keys were shown; try again later.",
    431: "The address and the headers are too large.",
    503: "The database, the broker or a connection cannot be had now; try again.",
}


def install(app: FastAPI) -> None:
    """Have an application describe itself completely."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(plain())
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def kinds() -> list[str]:
    """All kinds of errors that are told."""
    found, waiting = set[str](), [errors.DdlpError]
    while waiting:
        kind = waiting.pop()
        found.add(TYPES + kind.kind)
        waiting += [sub for sub in kind.__subclasses__() if sub.__module__ == errors.__name__]
    return sorted(found)


def name_of(method: str, path: str) -> str:
    """An operation as it is called in the tables."""
    return f"{method.upper()} {path.removeprefix(_API)}"


def _completed(schema: dict[str, Any]) -> dict[str, Any]:
    components = schema["components"]
    for superseded in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(superseded, None)
    components["schemas"]["Problem"] = _problem()
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{}, {"key": []}]
    asked = set[str]()
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            if method == "post":
                operation.setdefault("requestBody", _ANY_BODY)
            _add_answers(name_of(method, path), method, operation)
            for parameter in operation.get("parameters", []):
                _refuse_nul(parameter["schema"])
            asked |= _refuse_nul(operation.get("requestBody", {}))
    _refuse_nul_in(components["schemas"], asked)
    return schema


def _add_answers(name: str, method: str, operation: dict[str, Any]) -> None:
    answers = operation["responses"]
    answers.pop("422", None)
    for status in sorted({*EVERY, *OWN.get(name, ()), *(OF_CHANGES if method in _CHANGES else ())}):
        known = answers.setdefault(str(status), {"description": _SAID[status]})
        known.setdefault("content", {})[MEDIA_TYPE] = {"schema": {"$ref": f"{_COMPONENTS}Problem"}}
    if name in CONTENT:
        answers["200"]["content"] = {media_type: {} for media_type in CONTENT[name]}


def _problem() -> dict[str, Any]:
    text = {"type": "string"}
    field = dict.fromkeys(("in", "field", "detail"), text)
    return {
        "type": "object",
        "description": "An error, as RFC 9457 has it.",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string", "enum": kinds(), "description": "For programs; stable."},
            "title": text,
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"type": "string", "description": "What happened and what to do about it."},
            "errors": {
                "type": "array",
                "description": "The values that it is about.",
                "items": {"type": "object", "required": list(field), "properties": field},
            },
        },
    }


def _refuse_nul_in(components: dict[str, Any], names: set[str]) -> None:
    """The same for all schemas that bodies are made of."""
    done = set[str]()
    while names - done:
        name = (names - done).pop()
        done.add(name)
        names |= _refuse_nul(components[name])


def _refuse_nul(schema: Any) -> set[str]:
    """Say of each text that it holds no NUL; gives the components that are referred to."""
    referred = set[str]()
    for node in _nodes(schema):
        if "$ref" in node:
            referred.add(str(node["$ref"]).removeprefix(_COMPONENTS))
        free = not {"enum", "const", "format", "pattern"} & node.keys()
        if node.get("type") == "string" and free:
            node["pattern"] = _NO_NUL
    return referred


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for part in list(schema.values()):
            yield from _nodes(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _nodes(part)
