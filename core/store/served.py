"""Serves the batches of a folder over HTTP, to trainers that see no file of it.

    GET /ddlp-run-RUN/EPOCH-INDEX-TOKEN     the file, or a range of it
    HEAD                                    how large it is
    DELETE                                  it is consumed: its room is used again

Whoever asks shows a token that opens this one batch. Nothing but finished batches can be named, so
no path leads out of the folder, and nothing can be listed.
"""

import contextlib
import errno
import hashlib
import hmac
import logging
import os
import re
import secrets
import select
import socket
import socketserver
import stat
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ddlp.core.errors import InvalidInput, SystemFault, Unavailable
from ddlp.core.patience import Patience
from ddlp.core.store.connections import Connections
from ddlp.core.store.folder import release
from ddlp.core.store.names import is_batch_name

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 64
_IDLE_S = 60.0
"""A connection that asks for nothing for so long is closed."""
_STALL_S = 30.0
"""A client that takes nothing for so long is given up."""
_LEAST_BYTES_PER_S = 128 << 10
"""Nor is it waited for one that is slower than this in the long run."""
_LOOK_S = 0.1
"""How often it is looked whether to stop."""
_ACCEPT_PAUSE_S = 0.05
_OPEN_S = 1.0
"""So long errors that pass are waited for: a client asks again."""
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENXIO})
_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})", re.ASCII)
_BEARER = "Bearer "
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def new_key() -> str:
    """A secret from which tokens are made."""
    return secrets.token_hex(32)


def access_token(key: str, name: str) -> str:
    """What opens one batch, and no other."""
    return hmac.new(key.encode(), name.encode(), hashlib.sha256).hexdigest()


class StoreServer:
    """Serves a folder from threads of its own, a bounded number of them."""

    def __init__(
        self, root: Path, url: str, key: str, *, most_connections: int = MOST_CONNECTIONS
    ) -> None:
        self._root, self._key = root, key
        self._host, self._port = _host_and_port(url)
        self._most = most_connections
        self._listener: _Listener | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Its address, with the real port once it listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        port = self._port if self._listener is None else self._listener.server_address[1]
        return f"http://{host}:{port}"

    def listen(self) -> None:
        """Take the address, so that it is known whether it can be had."""
        try:
            self._listener = _Listener(self._host, self._port, self._root, self._key, self._most)
        except OSError as error:
            raise Unavailable(
                f"the store {self._root} cannot be served at {self.url} ({error.strerror}); "
                "name an address of this host and a port that is free"
            ) from error

    def start(self) -> None:
        """Serve from now on."""
        if self._listener is None:
            self.listen()
        assert self._listener is not None
        self._thread = threading.Thread(
            target=self._listener.serve_forever,
            args=(_LOOK_S,),
            name="ddlp-store-server",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Listen no more, and close what is open."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self._port = listener.server_address[1]
            if self._thread is not None:
                listener.shutdown()
            listener.server_close()
            listener.connections.close()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


class _Listener(socketserver.TCPServer):
    """Accepts connections, and serves each in a thread."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, root: Path, key: str, most: int) -> None:
        self.root, self.key = root, key
        self.connections = Connections(most)
        self.address_family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        super().__init__((str(address[0]), int(address[1])), _Handler)
        reference = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _close_in_child(reference))

    def get_request(self) -> tuple[socket.socket, object]:
        """Accept; where that fails, since there are too many files open, not at once again."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_ACCEPT_PAUSE_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread; one too many is told so."""
        if not self.connections.admit(request):
            request.settimeout(_ACCEPT_PAUSE_S)
            with contextlib.suppress(OSError):
                request.sendall(_BUSY)
            self.shutdown_request(request)
            return
        serve = threading.Thread(target=self._serve, args=(request, client_address), daemon=True)
        try:
            serve.start()
        except RuntimeError:
            self.connections.leave(request)
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nobody is there to raise to."""
        log.exception("a connection to the store %s could not be served", self.root)

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError as error:
            log.debug("a client of the store %s is gone (%s)", self.root, error)
        finally:
            self.connections.leave(request)
            self.shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = _IDLE_S
    server: _Listener

    def do_GET(self) -> None:
        """Send a batch, or a range of it."""
        self._with_batch(self._send)

    def do_HEAD(self) -> None:
        """Say how large a batch is."""
        self._with_batch(lambda file: self._say(HTTPStatus.OK, os.fstat(file).st_size))

    def do_DELETE(self) -> None:
        """Give a consumed batch's room back."""
        self._with_batch(self._release)

    def _with_batch(self, act: Callable[[int], None]) -> None:
        """Do something with the file that is asked for, if it may be."""
        self.server.connections.begin(self.connection)
        try:
            refusal = self._refusal()
            file = None if refusal else self._open()
            if file is None:
                self._say(refusal or HTTPStatus.NOT_FOUND)
                return
            try:
                act(file)
            finally:
                os.close(file)
        except SystemFault as fault:
            log.warning("a batch cannot be served now: %s", fault)
            self._say(HTTPStatus.SERVICE_UNAVAILABLE)
        finally:
            self.server.connections.end(self.connection)

    def _open(self) -> int | None:
        root = self.server.root
        found = partial(open_batch, root, self._name)
        return Patience(_OPEN_S).call("open", root / self._name, found)

    @property
    def _name(self) -> str:
        """What is asked for; a name is all of the path."""
        return self.path[1:] if self.path.startswith("/") else ""

    def _refusal(self) -> HTTPStatus | None:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # what follows is no request
            return HTTPStatus.BAD_REQUEST
        if not is_batch_name(self._name):
            return HTTPStatus.NOT_FOUND
        shown = self.headers.get("Authorization", "")
        if not shown.startswith(_BEARER):
            return HTTPStatus.UNAUTHORIZED
        token = shown.removeprefix(_BEARER).encode(errors="replace")
        right = hmac.compare_digest(token, access_token(self.server.key, self._name).encode())
        return None if right else HTTPStatus.FORBIDDEN

    def _send(self, file: int) -> None:
        nbytes = os.fstat(file).st_size
        part = parse_range(self.headers.get("Range"), nbytes)
        if part is None:
            part = range(nbytes)
            self._say(HTTPStatus.OK, nbytes)
        elif not part:
            self._say(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, Content_Range=f"bytes */{nbytes}")
        else:
            where = f"bytes {part.start}-{part.stop - 1}/{nbytes}"
            self._say(HTTPStatus.PARTIAL_CONTENT, len(part), Content_Range=where)
        send_file(self.connection, file, part)

    def _release(self, file: int) -> None:
        try:
            release(self.server.root / self._name)
        except OSError as error:
            log.warning("%s cannot be given back (%s)", self.path, error)
            self._say(HTTPStatus.INTERNAL_SERVER_ERROR)
        else:
            self._say(HTTPStatus.NO_CONTENT)

    def _say(self, status: HTTPStatus, nbytes: int = 0, **headers: str) -> None:
        """The head of an answer."""
        self.send_response(status)
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(nbytes))
        if status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Accept-Ranges", "bytes")
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request that we know."""
        self.close_connection = True
        self._say(HTTPStatus(code))

    def version_string(self) -> str:
        """Who answers."""
        return "ddlp"

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def open_batch(root: Path, name: str) -> int | None:
    """A descriptor of a batch's file, if it is one: no link is followed, and nothing blocks."""
    folder, _, file = name.partition("/")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        inside = os.open(root / folder, flags | os.O_DIRECTORY)
        try:
            found = os.open(file, flags | os.O_NONBLOCK, dir_fd=inside)
        finally:
            os.close(inside)
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
        return None
    if stat.S_ISREG(os.fstat(found).st_mode):
        return found
    os.close(found)
    return None


def parse_range(text: str | None, nbytes: int) -> range | None:
    """The bytes that are asked for: None where no range is, an empty one where it has none."""
    match = _RANGE.fullmatch(text.strip()) if text else None
    if match is None or not any(match.groups()):
        return None
    first, last = match.groups()
    if not first:
        return range(max(0, nbytes - int(last)), nbytes)
    if not last:
        return range(int(first), nbytes)
    return range(int(first), min(int(last) + 1, nbytes)) if int(first) <= int(last) else None


def send_file(connection: socket.socket, file: int, part: range) -> None:
    """Send a part of a file without a copy; a client that stalls or crawls is given up."""
    start = part.start
    deadline = time.monotonic() + _STALL_S + len(part) / _LEAST_BYTES_PER_S
    writable = select.poll()
    writable.register(connection, select.POLLOUT)
    while start < part.stop:
        try:
            sent = os.sendfile(connection.fileno(), file, start, part.stop - start)
        except BlockingIOError:
            wait_s = min(_STALL_S, deadline - time.monotonic())
            if wait_s <= 0 or not writable.poll(wait_s * 1000):
                raise TimeoutError("it takes nothing, or too slowly") from None
            continue
        if not sent:
            raise ConnectionAbortedError("the file was cut short meanwhile")
        start += sent


def _host_and_port(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None or parts.scheme != "http" or parts.path.strip("/"):
        raise InvalidInput(f"{url!r} is not where a store can be served; write http://HOST:PORT")
    return host, port


def _close_in_child(reference: "weakref.ref[_Listener]") -> None:
    """A child that was forked would keep the port, and its parent's connections, open."""
    listener = reference()
    if listener is not None:
        listener.socket.close()
        listener.connections.forget()
