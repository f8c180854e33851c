"""A tiny HTTP server on a Unix socket that answers as the Zeus daemon does, in either form."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

Cpu = dict[str, int | None]


class FakeZeusd:
    """What the daemon knows, and how it answers."""

    def __init__(self, *cpus: Cpu, old: bool = False) -> None:
        self.cpus = list(cpus)
        self.old = old
        self.status = 200
        self.text: str | None = None
        self.asked: list[str] = []

    def answer(self, method: str, path: str, body: str) -> tuple[int, object]:
        """Status and body of one request."""
        parts = urlsplit(path)
        self.asked.append(f"{method} {parts.path}")
        if self.old:
            return self._old(method, parts.path, body)
        if (method, parts.path) != ("GET", "/cpu/get_cumulative_energy"):
            return 404, None
        query = parse_qs(parts.query, strict_parsing=True)
        assert (query["cpu"], query["dram"]) == (["true"], ["true"])
        every = ",".join(str(number) for number in range(len(self.cpus)))
        numbers = [int(part) for part in query.get("cpu_ids", [every])[0].split(",")]
        return self.status, {str(number): self.cpus[number] for number in numbers}

    def _old(self, method: str, path: str, body: str) -> tuple[int, object]:
        words = path.split("/")
        if method != "POST" or len(words) != 4 or words[3] != "get_index_energy":
            return 404, None
        assert json.loads(body) == {"cpu": True, "dram": True}
        number = int(words[2])
        return (self.status, self.cpus[number]) if number < len(self.cpus) else (400, None)


@contextmanager
def served(daemon: FakeZeusd, path: Path) -> Iterator[Path]:
    """The daemon, listening for as long as this lasts."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            status, answer = daemon.answer(self.command, self.path, body)
            content = (daemon.text or json.dumps(answer)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with socketserver.UnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield path
        finally:
            server.shutdown()
            thread.join()
            path.unlink()
