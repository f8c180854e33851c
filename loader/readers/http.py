"""Reads a batch from the host that made it, over a connection that is kept; resumes what broke off.

A host that cannot be reached any more has taken its batches with it: they are missing, and are made
again elsewhere. One that refuses the token is a fault of the set-up, and said so. What this process
has run out of says nothing of the host.
"""

import http.client
import logging
import threading
import time
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from urllib.parse import urlsplit

import numpy as np

from ddlp.core.errors import DamagedBatch, InvalidInput, MissingBatch, Unavailable
from ddlp.core.passing import is_own
from ddlp.core.patience import fault_of
from ddlp.core.store.reading import check_batch
from ddlp.core.types import ReadPath
from ddlp.loader.buffers import Buffers
from ddlp.loader.readers.base import Loaded, Wanted

log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 5.0
_TIMEOUT_S = 15.0
_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.1
_PIECE_BYTES = 1 << 20
"""What is read at once: so much is asked for again at most."""
_LEAST_BYTES_PER_S = 64 << 10
"""A host that sends more slowly than this is as good as gone."""
_DROPPED = (OSError, http.client.HTTPException)
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
_LATER = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


@dataclass
class _Progress:
    """How far a batch has come."""

    memory: memoryview
    done: int = 0

    @property
    def left(self) -> int:
        """Bytes that are still to come."""
        return len(self.memory) - self.done


class _LaterError(Exception):
    """The host is there, and asks for patience."""


class _Host:
    """One kept connection; it is waited longer for an answer than for a connection."""

    def __init__(self, location: str, timeout_s: float) -> None:
        parts = urlsplit(location)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"{location!r} is not the address of a served batch")
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=_CONNECT_TIMEOUT_S)
        self._timeout_s = timeout_s

    @property
    def connected(self) -> bool:
        """Whether there is a connection, as far as this side knows."""
        return self._connection.sock is not None

    def ask(self, method: str, wanted: Wanted, start: int = 0) -> http.client.HTTPResponse:
        """The head of an answer; its body is to be read, or the connection closed."""
        if not self.connected:
            self._connection.connect()
            self._connection.sock.settimeout(self._timeout_s)
        headers = {"Authorization": f"Bearer {wanted.access}"} if wanted.access else {}
        if start:
            headers["Range"] = f"bytes={start}-"
        self._connection.request(method, urlsplit(wanted.location).path, headers=headers)
        return self._connection.getresponse()

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        self._connection.close()


class HttpReader:
    """Fetches batches; keeps one connection a host."""

    path = ReadPath.HTTP

    def __init__(self, buffers: Buffers, *, timeout_s: float = _TIMEOUT_S) -> None:
        self._buffers = buffers
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._hosts: dict[tuple[str, str], _Host] = {}

    def read(self, wanted: Wanted) -> Loaded:
        """Fetch a batch and check it."""
        memory = self._buffers.take((wanted.nbytes,), np.dtype(np.uint8)).data
        with self._lock:
            self._fetch(wanted, _Progress(memory))
        arrays = check_batch(memory, wanted.batch, wanted.checksum, wanted.location)
        return Loaded(arrays, wanted.nbytes, partial(self._give_back, wanted))

    def close(self) -> None:
        """Close the connections; the next read opens them again."""
        with self._lock:
            for host in self._hosts.values():
                host.close()
            self._hosts = {}

    def _fetch(self, wanted: Wanted, progress: _Progress) -> None:
        """All bytes of a batch, in as many attempts as it may take."""
        host = self._host(wanted.location)
        deadline = time.monotonic() + self._timeout_s + wanted.nbytes / _LEAST_BYTES_PER_S
        failures, pause_s = 0, _FIRST_PAUSE_S
        while progress.left:
            kept = host.connected
            try:
                _receive(host, wanted, progress, deadline)
            except (_LaterError, *_DROPPED) as error:
                if isinstance(error, OSError) and is_own(error):
                    raise fault_of(error, "connect", wanted.location) from error
                if kept and isinstance(error, ConnectionError | http.client.BadStatusLine):
                    continue  # it was closed while nothing was asked: that says nothing
                failures += 1
                if failures == _ATTEMPTS or time.monotonic() > deadline:
                    raise MissingBatch(
                        f"{wanted.location} cannot be had from its host ({_words(error)}), "
                        f"asked {failures} times"
                    ) from error
                time.sleep(pause_s)
                pause_s *= 2

    def _give_back(self, wanted: Wanted) -> None:
        """Let the host use the batch's room again; where that fails it goes with its run."""
        try:
            with self._lock:
                status = self._delete(wanted)
        except _DROPPED as error:
            log.warning("%s is not given back (%s)", wanted.location, _words(error))
            return
        if status >= HTTPStatus.BAD_REQUEST and status not in _GONE:
            log.warning("%s is not given back (HTTP status %d)", wanted.location, status)

    def _delete(self, wanted: Wanted) -> int:
        host = self._host(wanted.location)
        kept = host.connected
        try:
            answer = host.ask("DELETE", wanted)
        except _DROPPED:
            host.close()
            if not kept:
                raise
            answer = host.ask("DELETE", wanted)
        answer.read(_PIECE_BYTES)
        if not answer.isclosed():
            host.close()
        return answer.status

    def _host(self, location: str) -> _Host:
        parts = urlsplit(location)
        key = parts.scheme, parts.netloc
        if key not in self._hosts:
            self._hosts[key] = _Host(location, self._timeout_s)
        return self._hosts[key]


def _receive(host: _Host, wanted: Wanted, progress: _Progress, deadline: float) -> None:
    """Ask once for what is left, and read what comes."""
    try:
        answer = host.ask("GET", wanted, progress.done)
        _check_answer(wanted, answer, progress)
        while progress.left:
            piece = progress.memory[progress.done : progress.done + _PIECE_BYTES]
            moved = answer.readinto(piece)
            if not moved:
                raise ConnectionError(f"it ended at byte {progress.done}")
            progress.done += moved
            if time.monotonic() > deadline:
                raise TimeoutError(f"too slow: {progress.left} bytes are still to come")
        if answer.read(1):
            raise DamagedBatch(f"{wanted.location} is longer than {wanted.nbytes} bytes")
    except BaseException:
        host.close()  # what is left of the answer must not be taken for the next one
        raise


def _check_answer(wanted: Wanted, answer: http.client.HTTPResponse, progress: _Progress) -> None:
    """Raise unless what follows are the bytes that are left; begins anew where all of them do."""
    status = answer.status
    if status in _GONE:
        raise MissingBatch(f"{wanted.location} is gone")
    if status in _REFUSED:
        raise Unavailable(
            f"{wanted.location} is refused (HTTP status {status}); server and worker do not agree "
            "on its token: start that worker again"
        )
    if status in _LATER or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise _LaterError(f"HTTP status {status}")
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        raise DamagedBatch(f"{wanted.location} ends before byte {progress.done}")
    if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        raise Unavailable(f"{wanted.location} is answered with HTTP status {status}; is it ours?")
    if status == HTTPStatus.OK:
        progress.done = 0
    elif not (answer.getheader("Content-Range") or "").startswith(f"bytes {progress.done}-"):
        raise DamagedBatch(f"{wanted.location} is answered with another range than was asked for")
    if answer.length is not None and answer.length != progress.left:
        found = progress.done + answer.length
        raise DamagedBatch(f"{wanted.location} has {found} bytes, not {wanted.nbytes}")


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
