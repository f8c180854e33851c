"""What every request must satisfy while there are no keys: a known Host, and JSON in every change.

A page on another site can make a browser send a request here, but it can neither choose the Host
header (DNS rebinding is refused) nor send JSON without asking first (which is never granted). What
a GET makes the server work for, pictures, is refused to it by what browsers say of themselves.
"""

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ddlp.core.errors import NotAllowed
from ddlp.core.settings import LOOPBACK, Settings

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = LOOPBACK | set(settings.allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http":
            refusal = self._refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        host = _host_name(headers.get("host", ""))
        if host not in self._hosts:
            return _say(
                400,
                f"host {host!r} is not served here; name it in DDLP_ALLOWED_HOSTS if it should be",
            )
        if scope["method"] in _READING:
            return None
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json":
            return _say(
                415, f"a body of type {kind or 'unknown'!r} is not taken; send application/json"
            )
        return None


def refuse_cross_site(request: Request) -> None:
    """Refuse what a browser fetches for a page of another site."""
    if request.headers.get("sec-fetch-site") == "cross-site":
        raise NotAllowed("this is not shown on pages of other sites; open it by itself")


def check_listen(settings: Settings) -> None:
    """Refuse to listen beyond loopback while nothing asks for a key."""
    if settings.host not in LOOPBACK and not settings.unsafe_listen:
        raise NotAllowed(
            f"DDLP_HOST={settings.host} would open the server to the network without any key; "
            "use 127.0.0.1, or set DDLP_UNSAFE_LISTEN=1 inside a closed container network"
        )


def _host_name(header: str) -> str:
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _say(status: int, message: str) -> JSONResponse:
    return JSONResponse({"detail": message}, status_code=status)
