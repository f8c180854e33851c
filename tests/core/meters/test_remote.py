"""Samples reach a server, and nothing is left open."""

import gc
import http.server
import json
import threading
import uuid

from ddlp.core.meters.remote import sample_host
from ddlp.core.settings import Settings


class Server(http.server.ThreadingHTTPServer):
    """Keeps what was posted to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[tuple[str, dict[str, object]]] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, json.loads(body)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_samples_are_posted_and_no_connection_stays_open() -> None:
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sampling = sample_host(Settings(), f"http://127.0.0.1:{server.server_port}")
        sampling.tick()
        sampling.tick()
        sampling.stop()
        del sampling
        gc.collect()  # an open socket would be warned of, and warnings are errors
        server.shutdown()
    assert [path for path, _ in server.got] == ["/api/v1/meters", "/api/v1/meters"]
    first, second = (body for _, body in server.got)
    assert uuid.UUID(str(first["sampler"])) == uuid.UUID(str(second["sampler"]))
