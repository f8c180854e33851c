"""What every request must satisfy: a known Host, a key of the scope it needs, JSON in every change.

A page on another site can make a browser send a request here, but it can neither choose the Host
header (DNS rebinding is refused), nor send JSON without asking first (which is never granted), nor
hide from which site it comes. What a GET makes the server work for, pictures, is refused to it too.
"""

from urllib.parse import quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request, cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Asgi

from ddlp.core.errors import (
    DdlpError,
    InvalidInput,
    KeyRefused,
    Malformed,
    NotAllowed,
    TooMany,
    Unsupported,
)
from ddlp.core.settings import LOOPBACK, Settings
from ddlp.core.types import Scope
from ddlp.server import bodies, problems
from ddlp.server.identity import Identity, acting_as
from ddlp.server.keys import Keyring

COOKIE = "ddlp_key"

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
CHANGING = frozenset({"POST", "DELETE"})
"""What routes take that change something; there are none for PUT and its like."""
_EVERYWHERE = frozenset({"0.0.0.0", "::"})
_OPEN = frozenset({"/healthz", "/readyz", "/signin", "/api/v1/session"})
_KEYS = ("/keys", "/api/v1/keys")
_WORK = frozenset(
    {
        ("leases", 1, "claim"),
        ("leases", 1, "report"),
        ("devices", 0, "devices"),
        ("devices", 1, "queue-key"),
        ("devices", 2, "heartbeat"),
        ("meters", 0, "meters"),
        ("packings", 2, "claim"),
        ("packings", 2, "news"),
        ("packings", 2, "report"),
        ("runs", 2, "attach"),
        ("runs", 2, "begin"),
        ("runs", 2, "alive"),
        ("runs", 2, "leave"),
        ("runs", 2, "mark"),
        ("runs", 2, "feed"),
        ("runs", 2, "damaged"),
    }
)
"""What workers and trainers POST: resource, parts that follow it, and the last of them."""

_ONCE = frozenset(
    {
        b"authorization",
        b"content-length",
        b"content-type",
        b"host",
        b"origin",
        b"sec-fetch-site",
        b"transfer-encoding",
    }
)
"""Headers that decide who asks, for whom, and what."""

Headers = dict[str, str]


class Guard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, settings: Settings, keyring: Keyring) -> None:
        self._app = app
        self._settings = settings
        self._keyring = keyring
        self._required = settings.keys == "required"
        self._hosts = LOOPBACK | set(settings.allowed_hosts) | ({settings.host} - _EVERYWHERE)

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        """Pass a request on in the name of its key, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        try:
            _check_once(scope["headers"])
            self._check_host(headers)
            _check_address(scope)
            if scope["method"] in CHANGING:
                _check_change(scope["method"], headers)
            identity = await self._identify(headers, address_of(scope))
            self._check_scope(scope, identity)
            receive = await self._take_body(scope, headers, receive)
        except DdlpError as error:
            await _refusal(scope, headers, error)(scope, receive, send)
            return
        with acting_as(identity):
            await self._app(scope, receive, send)

    async def _take_body(self, scope: Asgi, headers: Headers, receive: Receive) -> Receive:
        """Read a body within the bounds of its route; nothing is read of one that is refused."""
        length = headers.get("content-length", "0")
        if length == "0" and "transfer-encoding" not in headers:
            return receive
        most = bodies.most_bytes(self._settings, scope["path"])
        bodies.check_length(length, most)
        return await bodies.read(receive, most)

    def _check_host(self, headers: Headers) -> None:
        host = _host_name(headers.get("host", ""))
        if host not in self._hosts:
            raise Malformed(
                f"host {host!r} is not served here; name it in DDLP_ALLOWED_HOSTS if it should be"
            )

    async def _identify(self, headers: Headers, address: str) -> Identity | None:
        """Who asks; a key that is sent by a program must be good, whether one is needed or not."""
        shown = headers.get("authorization")
        if shown is not None:
            kind, _, key = shown.partition(" ")
            if kind.lower() != "bearer":
                raise KeyRefused("the header Authorization is not taken; write: Bearer KEY")
            found = await self._find(key.strip(), address)
            if found is None:
                raise KeyRefused(
                    "this key is not known or was revoked; ask an administrator for another, and "
                    "put it into DDLP_KEY"
                )
            return found
        # Cookies are shared by all servers of a host: one that is not known may be of another one.
        key = cookie_parser(headers["cookie"]).get(COOKIE, "") if "cookie" in headers else ""
        try:
            return await self._find(key, address) if key else None
        except TooMany:
            return None

    async def _find(self, key: str, address: str) -> Identity | None:
        known = self._keyring.check(key)
        if known is not None:
            return known
        return await run_in_threadpool(self._keyring.find, key, address)

    def _check_scope(self, scope: Asgi, identity: Identity | None) -> None:
        path = scope["path"]
        if path in _OPEN or path.startswith("/static/"):
            return
        wanted = needed_scope(scope["method"], path)
        if identity is not None:
            if not identity.scope.covers(wanted):
                raise NotAllowed(
                    f"key {identity.name} has scope {identity.scope}, and this needs {wanted}; "
                    "use a key of that scope"
                )
        elif self._required:
            raise KeyRefused(
                f"this server asks for a key, here one of scope {wanted}; put it into DDLP_KEY, or "
                "make one on the server's machine: ddlp keys create NAME --scope admin --local"
            )


def needed_scope(method: str, path: str) -> Scope:
    """What a key must be good for."""
    if path in _KEYS or path.startswith("/api/v1/keys/"):
        return Scope.ADMIN
    if method in _READING:
        return Scope.READ
    parts = path.split("/")
    if method == "POST" and path.startswith("/api/v1/") and len(parts) < 8:
        return Scope.WORK if (parts[3], len(parts) - 4, parts[-1]) in _WORK else Scope.ADMIN
    return Scope.ADMIN


def address_of(scope: Asgi) -> str:
    """From where a request comes, as far as that is known."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def refuse_cross_site(request: Request) -> None:
    """Refuse what a browser fetches for a page of another site."""
    if request.headers.get("sec-fetch-site") == "cross-site":
        raise NotAllowed("this is not shown on pages of other sites; open it by itself")


def check_listen(settings: Settings) -> None:
    """Refuse to listen beyond loopback while nothing asks for a key."""
    safe = settings.host in LOOPBACK or settings.keys == "required"
    if not safe and not settings.unsafe_listen:
        raise NotAllowed(
            f"DDLP_HOST={settings.host} would open the server to the network without any key; "
            "use 127.0.0.1, ask for keys with DDLP_KEYS=required, or set DDLP_UNSAFE_LISTEN=1 "
            "inside a closed container network"
        )


def _check_once(headers: list[tuple[bytes, bytes]]) -> None:
    """Refuse what can be read in two ways: a proxy might have looked at the other one."""
    names = [name for name, _ in headers if name in _ONCE]
    if len(names) > len(set(names)):
        twice = next(name for name in names if names.count(name) > 1).decode()
        raise Malformed(f"the header {twice.title()} is sent more than once; send it once")


def _check_address(scope: Asgi) -> None:
    """Refuse a sign that no name has, and that no database keeps."""
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        raise InvalidInput("the address holds a NUL character (%00); leave it out")


def _check_change(method: str, headers: Headers) -> None:
    """Refuse what a form or a script of another site can send.

    A DELETE without a body needs no type: no form sends one, and a script of another site only
    after asking, as for JSON.
    """
    kind = headers.get("content-type", "").split(";")[0].strip().lower()
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    bare = method == "DELETE" and not kind and not has_body
    if kind != "application/json" and not bare:
        raise Unsupported(
            f"a body of type {kind or 'unknown'!r} is not taken; send application/json"
        )
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise NotAllowed("changes are not taken from pages of other sites; use this server's own")
    origin = headers.get("origin")
    if origin is not None and _site(origin) != headers["host"].lower():
        raise NotAllowed(
            f"changes are not taken from pages of {origin!r}; a proxy must pass on the header Host"
        )


def _refusal(scope: Asgi, headers: Headers, error: DdlpError) -> Response:
    """The answer to a request that is refused: people who open a page are led to sign in."""
    opens_page = (
        scope["method"] == "GET"
        and "text/html" in headers.get("accept", "")
        and "hx-request" not in headers
        and not scope["path"].startswith("/api/")
    )
    if opens_page and error.status in (401, 403):
        query = scope["query_string"].decode("latin-1")
        wanted = scope["path"] + (f"?{query}" if query else "")
        return RedirectResponse(f"/signin?next={quote(wanted, safe='/')}", status_code=303)
    return problems.answer(error)


def _site(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _host_name(header: str) -> str:
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""
