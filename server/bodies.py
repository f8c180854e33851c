"""Reads the body of a request, as far as its route allows, before it is taken for a message."""

from pydantic_core import from_json
from starlette.types import Message, Receive

from ddlp.core.errors import InvalidInput, TooLarge
from ddlp.core.settings import Settings

_SIGN_IN_BYTES = 4096
"""Open to everybody: a key and no more."""
_REPORT = "/api/v1/leases/report"
_SIGN_IN = "/api/v1/session"

_NUL = rb"\u0000"
_DEPTH = 200


def most_bytes(settings: Settings, path: str) -> int:
    """How large a body may be on a route."""
    if path == _SIGN_IN:
        return _SIGN_IN_BYTES
    return settings.max_report_bytes if path == _REPORT else settings.max_body_bytes


def check_length(declared: str, most: int) -> None:
    """Refuse a body by its Content-Length, before anything of it is read."""
    if not declared.isascii() or not declared.isdigit():
        raise InvalidInput(f"the header Content-Length is {declared!r}; give a number of bytes")
    if len(declared) > 20 or int(declared) > most:
        raise _too_large(most)


async def read(receive: Receive, most: int) -> Receive:
    """Read a body, and give back what it can be received from again."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return _again(message, receive)
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most:
            raise _too_large(most)
    whole = bytes(body)
    _check(whole)
    return _again({"type": "http.request", "body": whole, "more_body": False}, receive)


def _again(first: Message, receive: Receive) -> Receive:
    waiting = [first]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def holds_nul(body: bytes) -> bool:
    """Whether JSON holds this code; behind a backslash that is itself escaped it is plain text.

    The event loop waits for this: large bodies are searched for fixed bytes, not for a pattern.
    """
    return _NUL in body and _NUL in body.replace(rb"\\", b"/")


def _check(body: bytes) -> None:
    """Refuse what no database keeps, and what is nested too deep to be read."""
    if holds_nul(body):
        raise InvalidInput("the body holds a NUL character (\\u0000); leave it out")
    if body.count(b"[") + body.count(b"{") > _DEPTH:
        try:
            from_json(body)
        except ValueError as error:
            if "recursion limit" in str(error):
                raise InvalidInput(f"the body is nested deeper than {_DEPTH} levels") from error


def _too_large(most: int) -> TooLarge:
    return TooLarge(
        f"the body is larger than the {most:,} bytes that are taken here; send less at once"
    )
