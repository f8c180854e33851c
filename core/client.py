"""A small JSON client over one kept-alive connection, for workers, loaders and commands."""

import http.client
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any, BinaryIO, Self, cast
from urllib.parse import SplitResult, quote, urlsplit

from ddlp.core.errors import DdlpError, InvalidInput, Unavailable, from_status
from ddlp.core.messages import Message
from ddlp.core.passing import failed_words, is_own, remedy
from ddlp.core.settings import Settings, load_settings

_DROPPED = (ConnectionError, http.client.HTTPException, TimeoutError, OSError)


_BUSY = 503
_SAY_AFTER_S, _SAY_EVERY_S = 2.5, 10.0
_DOUBT = "; it may have been made although no answer came: look before you ask for it again"


class _BusyError(Unavailable):
    """The server says that it cannot do it now."""


class Client:
    """Talks to one server. Not shared between threads; what got no answer is asked again.

    What makes something is sent with an Idempotency-Key, so that to ask again makes nothing more.

    The key is the one in DDLP_KEY where left out; an empty one is not sent. `say` is told when a
    server is silent for some seconds, and every ten seconds from then on.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 60.0,
        patience_s: float = 10.0,
        key: str | None = None,
        say: Callable[[str], object] | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not _port_fits(parts):
            raise InvalidInput(f"{url!r} is not an address of a server; write http://HOST:PORT")
        self.url = url.rstrip("/")
        self._patience_s = patience_s
        self._say = say
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = kind(parts.hostname, parts.port, timeout=timeout_s)
        self._base = parts.path.rstrip("/") + "/api/v1"
        self._headers = _key_header(_own_key() if key is None else key)

    def get(self, path: str) -> Any:
        """The JSON answer to a GET."""
        return self._call("GET", path, None)

    def post(
        self, path: str, body: Message | dict[str, Any] | None = None, *, once: bool = False
    ) -> Any:
        """The JSON answer to a POST; one that must not be done twice has a key of its own."""
        raw = body.model_dump_json() if isinstance(body, Message) else json.dumps(body or {})
        key = {"Idempotency-Key": str(uuid.uuid4())} if once else {}
        return self._call("POST", path, raw.encode(), headers=key)

    def delete(self, path: str) -> Any:
        """Return the JSON answer to a DELETE, which is not repeated once sent.

        It gets a new connection: the server may have closed a kept one, which only sending shows.
        """
        self._connection.close()
        return self._call("DELETE", path, b"", repeats=False)

    def download(self, path: str) -> bytes:
        """What a GET answers that is no JSON."""
        found: bytes = self._call("GET", path, None, raw=True)
        return found

    @contextmanager
    def stream(self, path: str) -> Iterator[BinaryIO]:
        """What a GET answers, to be read bit by bit; a connection that breaks is an error."""
        try:
            with self._breaking_off():
                address = quote(self._base + path, safe="/?=&%")
                self._connection.request("GET", address, headers=self._headers)
                response = self._connection.getresponse()
                if response.status >= 300:
                    raise _failure(response.status, response.read())
            yield cast(BinaryIO, _Whole(response, self._breaking_off))
        finally:
            self._connection.close()

    @contextmanager
    def _breaking_off(self) -> Iterator[None]:
        try:
            yield
        except _DROPPED as error:
            raise Unavailable(f"{self.url} broke off ({error}); try again") from error

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        repeats: bool = True,
        raw: bool = False,
    ) -> Any:
        began = time.monotonic()
        deadline, say_at = began + self._patience_s, began + _SAY_AFTER_S
        pause_s = 0.0  # a kept connection may have gone stale: the first repeat is at once
        stale = self._connection.sock is not None
        doubt = ""
        while True:
            try:
                answer = self._exchange(method, self._base + path, body, headers)
                return answer if raw else self._parsed(answer)
            except _BusyError as error:
                # The server is there and asks for patience: its database or broker is away.
                if not repeats or time.monotonic() + pause_s > deadline:
                    raise _BusyError(f"{error}{doubt}") from error
            except _DROPPED as error:
                self._connection.close()
                if headers and not isinstance(error, ConnectionRefusedError):
                    doubt = _DOUBT
                final = not repeats and not isinstance(error, ConnectionRefusedError)
                if final or (not stale and time.monotonic() + pause_s > deadline):
                    raise self._unanswered(error, doubt) from error
            stale = False
            if self._say is not None and time.monotonic() + pause_s > say_at:
                self._say(self._silence(time.monotonic() - began))
                say_at = time.monotonic() + _SAY_EVERY_S
            time.sleep(pause_s)
            pause_s = min(max(0.05, pause_s * 2), 1.0)

    def _unanswered(self, error: Exception, doubt: str) -> Unavailable:
        """Said in the end; what this process has run out of is no fault of the server."""
        if isinstance(error, OSError) and is_own(error):
            said = f"{failed_words(error, 'connect', self.url)}; {remedy(error)}"
            return Unavailable(f"{said}{doubt}")
        return Unavailable(
            f"no answer from {self.url} ({error}); start the server with: ddlp up, or "
            f"set DDLP_URL or url= to its address{doubt}"
        )

    def _silence(self, seconds: float) -> str:
        """Said while a server does not answer."""
        return (
            f"no answer from {self.url} for {seconds:.0f} s; trying for "
            f"{max(0.0, self._patience_s - seconds):.0f} s more. Start the server with: ddlp up, "
            "or set DDLP_URL or url= to its address"
        )

    def _exchange(
        self, method: str, path: str, body: bytes | None, given: Mapping[str, str]
    ) -> bytes:
        headers = {**self._headers, **given}
        if body is not None:
            headers["Content-Type"] = "application/json"
        self._connection.request(method, quote(path, safe="/?=&%"), body=body, headers=headers)
        response = self._connection.getresponse()
        raw = response.read()
        if response.status == _BUSY:
            raise _BusyError(str(_failure(response.status, raw)))
        if response.status >= 300:
            raise _failure(response.status, raw)
        return raw

    def _parsed(self, raw: bytes) -> Any:
        try:
            return json.loads(raw) if raw else None
        except ValueError as error:
            raise Unavailable(f"{self.url} answers, but not as a DDLP server; check it") from error


class _Whole:
    """An answer that is there to its end; one that breaks off would look as if it had ended."""

    def __init__(
        self,
        response: http.client.HTTPResponse,
        breaking_off: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._response = response
        self._breaking_off = breaking_off

    def read(self, nbytes: int) -> bytes:
        with self._breaking_off():
            found = self._response.read(nbytes)
            if nbytes and not found and self._response.length:
                raise ConnectionError(f"{self._response.length} bytes are missing")
        return found


def shown_key(settings: Settings) -> str:
    """The key to show to the server, of DDLP_KEY or DDLP_KEY_FILE; empty without either."""
    if settings.key is not None or settings.key_file is None:
        return "" if settings.key is None else settings.key.get_secret_value()
    try:
        return settings.key_file.read_text().strip()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"DDLP_KEY_FILE={settings.key_file} cannot be read ({error}); let this user read it, "
            "or set DDLP_KEY"
        ) from error


def _own_key() -> str:
    return shown_key(load_settings())


def _key_header(key: str) -> dict[str, str]:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput("the key (DDLP_KEY) has signs that no key has; copy it again, whole")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _failure(status: int, raw: bytes) -> DdlpError:
    try:
        message = json.loads(raw)["detail"]
    except (ValueError, KeyError, TypeError):
        message = None
    if not isinstance(message, str):
        message = raw.decode(errors="replace")[:500] or f"HTTP status {status}"
    return from_status(status, message)


def _port_fits(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False
