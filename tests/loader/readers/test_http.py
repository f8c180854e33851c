"""Batches from the host that made them: over bad lines, from hosts that are gone, refuse or lie."""

import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddlp.core.codecs import Codec
from ddlp.core.errors import DamagedBatch, InvalidInput, MissingBatch, SystemFault, Unavailable
from ddlp.core.store import FolderStore, path_of
from ddlp.loader.buffers import Buffers
from ddlp.loader.readers import http as http_module
from ddlp.loader.readers.base import Wanted
from ddlp.loader.readers.http import HttpReader
from tests.core.store.making import batch_id, filler, write
from tests.loader.readers.places import ServedPlace

BATCH = batch_id(samples=16)
TOKEN = "the-token-that-nobody-may-see"
Script = Callable[["_Handler"], None]


class ScriptedHost(ThreadingHTTPServer):
    """A host that does with each request what it is told; the last word is for all that follow."""

    daemon_threads = True

    def __init__(self, raw: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.raw = raw
        self.scripts: list[Script] = [whole]
        self.asked: list[tuple[str, str | None]] = []
        self.connections = 0

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedHost

    def do_GET(self) -> None:
        self.server.asked.append((self.command, self.headers.get("Range")))
        scripts = self.server.scripts
        (scripts.pop(0) if len(scripts) > 1 else scripts[0])(self)

    do_DELETE = do_GET  # noqa: N815

    def head(self, status: int, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    @property
    def start(self) -> int:
        asked = self.headers.get("Range") or "bytes=0-"
        return int(asked.removeprefix("bytes=").removesuffix("-"))

    def log_message(self, format: str, *args: object) -> None:
        pass


def whole(handler: _Handler) -> None:
    """As it should be, from where it is asked for."""
    raw, start = handler.server.raw, handler.start
    if handler.command == "DELETE":
        handler.head(204)
        return
    if start:
        where = f"bytes {start}-{len(raw) - 1}/{len(raw)}"
        handler.head(206, Content_Length=len(raw) - start, Content_Range=where)
    else:
        handler.head(200, Content_Length=len(raw))
    handler.wfile.write(raw[start:])


def breaking(nbytes: int) -> Script:
    """Break off after so many bytes."""

    def script(handler: _Handler) -> None:
        raw, start = handler.server.raw, handler.start
        where = f"bytes {start}-{len(raw) - 1}/{len(raw)}"
        extra = {"Content_Range": where} if start else {}
        handler.head(206 if start else 200, Content_Length=len(raw) - start, **extra)
        handler.wfile.write(raw[start : start + nbytes])
        handler.close_connection = True

    return script


def status(number: int) -> Script:
    return lambda handler: handler.head(number, Content_Length=0)


def hang_up(handler: _Handler) -> None:
    handler.close_connection = True


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return path_of(write(FolderStore(tmp_path), BATCH, value=7, side=64).location)


@pytest.fixture
def host(file: Path) -> Iterator[ScriptedHost]:
    with ScriptedHost(file.read_bytes()) as host:
        thread = threading.Thread(target=host.serve_forever, args=(0.01,))
        thread.start()
        yield host
        host.shutdown()
        thread.join()


@pytest.fixture
def wanted(host: ScriptedHost, file: Path, tmp_path: Path) -> Wanted:
    checksum = write(FolderStore(tmp_path / "again"), BATCH, value=7, side=64).checksum
    address = f"http://127.0.0.1:{host.server_port}/batch"
    return Wanted(BATCH, checksum, len(host.raw), address, TOKEN)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpReader]:
    monkeypatch.setattr(http_module, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(http_module, "_PIECE_BYTES", 4096)
    reader = HttpReader(Buffers(), timeout_s=5)
    yield reader
    reader.close()


def is_right(reader: HttpReader, wanted: Wanted) -> bool:
    return bool((np.asarray(reader.read(wanted).tensors["images"]) == 7).all())


def test_one_connection_is_kept(host: ScriptedHost, reader: HttpReader, wanted: Wanted) -> None:
    for _ in range(10):
        loaded = reader.read(wanted)
        assert not loaded.borrowed
        loaded.give_back()
    assert host.connections == 1


def test_the_token_is_shown(host: ScriptedHost, reader: HttpReader, wanted: Wanted) -> None:
    shown: list[str | None] = []

    def listen(handler: _Handler) -> None:
        shown.append(handler.headers.get("Authorization"))
        whole(handler)

    host.scripts = [listen]
    reader.read(wanted)
    reader.read(replace(wanted, access=None))
    assert shown == [f"Bearer {TOKEN}", None]


def test_what_broke_off_goes_on_where_it_stopped(
    host: ScriptedHost, reader: HttpReader, wanted: Wanted
) -> None:
    host.scripts = [breaking(3 * 4096), breaking(5 * 4096), breaking(0), whole]
    assert is_right(reader, wanted)
    starts = [None, f"bytes={3 * 4096}-", f"bytes={8 * 4096}-", f"bytes={8 * 4096}-"]
    assert host.asked == [("GET", start) for start in starts]


def test_a_host_that_knows_no_ranges_sends_all_of_it_again(
    host: ScriptedHost, reader: HttpReader, wanted: Wanted
) -> None:
    def ignorant(handler: _Handler) -> None:
        handler.head(200, Content_Length=len(host.raw))
        handler.wfile.write(host.raw)

    host.scripts = [breaking(4096), ignorant]
    assert is_right(reader, wanted)


@pytest.mark.parametrize("number", [500, 502, 503, 429])
def test_a_host_that_is_busy_is_asked_again(
    host: ScriptedHost, reader: HttpReader, wanted: Wanted, number: int
) -> None:
    host.scripts = [status(number), status(number), whole]
    assert is_right(reader, wanted)


@pytest.mark.parametrize("script", [status(503), hang_up, breaking(10)])
def test_a_host_that_never_does_it_has_lost_its_batch(
    host: ScriptedHost, reader: HttpReader, wanted: Wanted, script: Script
) -> None:
    host.scripts = [script]
    with pytest.raises(MissingBatch, match=r"/batch cannot be had from its host .*asked 4 times"):
        reader.read(wanted)
    assert len(host.asked) == 4


def test_a_host_that_is_gone_has_taken_its_batches_with_it(
    reader: HttpReader, wanted: Wanted
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(MissingBatch, match=r"cannot be had from its host \(.*refused"):
        reader.read(replace(wanted, location=f"http://127.0.0.1:{port}/batch"))
    with pytest.raises(MissingBatch, match="cannot be had from its host"):
        reader.read(replace(wanted, location="http://no-such-host.invalid/batch"))


def test_a_host_that_says_nothing_is_given_up(
    wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_module, "_FIRST_PAUSE_S", 0.001)
    reader = HttpReader(Buffers(), timeout_s=0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/batch"
        with pytest.raises(MissingBatch, match="timed out"):
            reader.read(replace(wanted, location=address))


def test_a_host_that_crawls_is_given_up(
    host: ScriptedHost, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crawl(handler: _Handler) -> None:
        handler.head(200, Content_Length=len(host.raw))
        for at in range(0, len(host.raw), 1000):
            handler.wfile.write(host.raw[at : at + 1000])
            time.sleep(0.02)

    monkeypatch.setattr(http_module, "_PIECE_BYTES", 1000)
    monkeypatch.setattr(http_module, "_LEAST_BYTES_PER_S", 1 << 40)
    host.scripts = [crawl]
    with pytest.raises(MissingBatch, match="too slow"):
        HttpReader(Buffers(), timeout_s=0.1).read(wanted)


@pytest.mark.parametrize("number", [401, 403])
def test_a_token_that_is_refused_is_a_fault_of_the_set_up(
    host: ScriptedHost, reader: HttpReader, wanted: Wanted, number: int
) -> None:
    host.scripts = [status(number)]
    with pytest.raises(Unavailable, match=f"/batch is refused .HTTP status {number}") as caught:
        reader.read(wanted)
    assert TOKEN not in str(caught.value)
    assert len(host.asked) == 1


@pytest.mark.parametrize("number", [404, 410])
def test_a_batch_that_is_gone_is_missing(
    host: ScriptedHost, reader: HttpReader, wanted: Wanted, number: int
) -> None:
    host.scripts = [status(number), whole]
    with pytest.raises(MissingBatch, match="/batch is gone"):
        reader.read(wanted)
    assert is_right(reader, wanted)


@pytest.mark.parametrize("number", [301, 204, 400, 418])
def test_an_answer_that_makes_no_sense_is_said(
    host: ScriptedHost, reader: HttpReader, wanted: Wanted, number: int
) -> None:
    host.scripts = [status(number)]
    with pytest.raises(Unavailable, match=f"HTTP status {number}; is it ours"):
        reader.read(wanted)


@pytest.mark.parametrize("said", [0, 1, -1, 1 << 62])
def test_a_length_is_not_believed(
    host: ScriptedHost, reader: HttpReader, wanted: Wanted, said: int
) -> None:
    def lie(handler: _Handler) -> None:
        length = said if said in (0, 1 << 62) else len(host.raw) + said
        handler.head(200, Content_Length=length)
        handler.wfile.write(host.raw + b"more")
        handler.close_connection = True

    host.scripts = [lie]
    with pytest.raises(DamagedBatch, match=f"bytes, not {wanted.nbytes}"):
        reader.read(wanted)


def chunked(raw: bytes) -> Script:
    def script(handler: _Handler) -> None:
        handler.head(200, Transfer_Encoding="chunked")
        for at in range(0, len(raw), 5000):
            piece = raw[at : at + 5000]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")

    return script


def test_a_length_need_not_be_said(host: ScriptedHost, reader: HttpReader, wanted: Wanted) -> None:
    host.scripts = [chunked(host.raw)]
    assert is_right(reader, wanted)
    host.scripts = [chunked(host.raw + b"x")]
    with pytest.raises(DamagedBatch, match="is longer than"):
        reader.read(wanted)
    host.scripts = [chunked(host.raw[:-1])]
    with pytest.raises(DamagedBatch):
        reader.read(wanted)


def test_a_range_that_was_not_asked_for_is_refused(
    host: ScriptedHost, reader: HttpReader, wanted: Wanted
) -> None:
    def wrong(handler: _Handler) -> None:
        raw = host.raw
        where = f"bytes 0-{len(raw) - 4097}/{len(raw)}"
        handler.head(206, Content_Length=len(raw) - 4096, Content_Range=where)
        handler.wfile.write(raw[:-4096])

    host.scripts = [breaking(4096), wrong]
    with pytest.raises(DamagedBatch, match="another range"):
        reader.read(wanted)
    host.scripts = [breaking(4096), status(416)]
    with pytest.raises(DamagedBatch, match="ends before byte 4096"):
        reader.read(wanted)


def test_a_batch_that_changed_while_it_came_is_found(
    host: ScriptedHost, reader: HttpReader, wanted: Wanted
) -> None:
    def other(handler: _Handler) -> None:
        host.raw = bytes(len(host.raw))
        whole(handler)

    host.scripts = [breaking(8 * 4096), other]
    with pytest.raises(DamagedBatch, match="/batch: the payload's checksum"):
        reader.read(wanted)


def test_a_host_that_came_back_is_used_again(tmp_path: Path, reader: HttpReader) -> None:
    place = ServedPlace(tmp_path, Codec.OFF)
    wanted = place.wanted(BATCH, write(place.store, BATCH, fill=filler(7)))
    assert is_right(reader, wanted)
    place.server.stop()
    with pytest.raises(MissingBatch, match="cannot be had"):
        reader.read(wanted)
    place.server.start()

    assert is_right(reader, wanted)
    place.close()


def test_a_kept_connection_that_went_stale_costs_no_attempt(
    host: ScriptedHost, reader: HttpReader, wanted: Wanted
) -> None:
    def last(handler: _Handler) -> None:
        whole(handler)
        handler.close_connection = True  # without a word

    host.scripts = [last, hang_up, hang_up, hang_up, whole]
    assert is_right(reader, wanted)
    assert is_right(reader, wanted)


def test_giving_back_is_tried_and_its_failure_logged(
    host: ScriptedHost, reader: HttpReader, wanted: Wanted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    loaded = reader.read(wanted)
    host.scripts = [status(204), status(404), status(500), hang_up]
    loaded.give_back()
    loaded.give_back()
    assert caplog.text == ""
    loaded.give_back()
    assert "/batch is not given back (HTTP status 500)" in caplog.text
    caplog.clear()
    loaded.give_back()
    assert "/batch is not given back" in caplog.text
    assert TOKEN not in caplog.text
    host.scripts = [whole]
    assert is_right(reader, wanted)


@pytest.mark.parametrize("location", ["file:///x", "ftp://host/x", "http:///x", "x"])
def test_an_address_that_is_not_served_is_said(
    reader: HttpReader, wanted: Wanted, location: str
) -> None:
    with pytest.raises(InvalidInput, match="not the address of a served batch"):
        reader.read(replace(wanted, location=location))


def test_what_this_process_has_run_out_of_is_no_fault_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ServedPlace(tmp_path, Codec.OFF)
    try:
        wanted = place.wanted(BATCH, write(place.store, BATCH))

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        with monkeypatch.context() as patched:
            patched.setattr(socket, "create_connection", refuse)
            with pytest.raises(SystemFault, match=r"connect of http://.* failed with EMFILE"):
                HttpReader(Buffers()).read(wanted)
        reader = HttpReader(Buffers())
        assert reader.read(wanted).nbytes == wanted.nbytes
        reader.close()
    finally:
        place.close()
