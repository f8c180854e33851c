"""Watching a run: to its end through cut streams, and never past an error in silence."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ddlp.cli.watch import watch
from ddlp.core.client import Client
from ddlp.core.errors import DdlpError, NotFound, Unavailable

PRONG = {"taken": 1, "images_per_s": 2.0}
SNAPSHOT = {
    "state": "running",
    "epoch": 0,
    "consumed": 1,
    "batches": 4,
    "cpu": PRONG,
    "csd": PRONG,
    "delivered_images_per_s": None,
}
END = {"state": "completed", "reason": None}
Answer = tuple[int, str]


def event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def detail(message: str) -> str:
    return json.dumps({"detail": message})


@contextmanager
def server(*answers: Answer) -> Iterator[Client]:
    """Knows every run; answers each request for events with the next answer, or the last again."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = 200, "{}"
            if self.path.endswith("/events"):
                status, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            with Client(f"http://127.0.0.1:{http.server_port}", patience_s=0) as client:
                yield client
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddlp.cli.watch._PAUSE_S", 0.0)


def test_it_returns_the_state_that_the_run_ended_in(capsys: pytest.CaptureFixture[str]) -> None:
    failed = event("end", {"state": "failed", "reason": "sample 3 is damaged"})
    with server((200, event("snapshot", SNAPSHOT) + failed)) as client:
        assert watch(client, "r", as_json=False) == "failed"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("running   epoch 0  1/4 batches consumed")
    assert lines[1:] == ["failed: sample 3 is damaged"]


@pytest.mark.parametrize(
    "cut",
    [
        (200, ""),
        (200, event("snapshot", SNAPSHOT)),
        (200, event("end", END)[:-9]),
        (200, event("end", END)[:-1]),
        (503, detail("the database is away")),
    ],
    ids=["nothing", "between", "within", "before-the-empty-line", "unavailable"],
)
def test_a_stream_that_is_cut_is_opened_again(
    capsys: pytest.CaptureFixture[str], cut: Answer
) -> None:
    with server(cut, cut, (200, event("end", END))) as client:
        assert watch(client, "r", as_json=True) == "completed"
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines if "end" in line] == [{"event": "end", **END}]


def test_it_gives_up_on_a_stream_that_brings_nothing() -> None:
    with (
        server((200, "")) as client,
        pytest.raises(Unavailable, match="broke off before run r was over"),
    ):
        watch(client, "r", as_json=True)


def test_tries_are_counted_anew_when_something_came() -> None:
    cuts = [(200, ""), (200, ""), (200, ""), (200, event("snapshot", SNAPSHOT))] * 3
    with server(*cuts, (200, event("end", END))) as client:
        assert watch(client, "r", as_json=True) == "completed"


@pytest.mark.parametrize(("status", "error"), [(404, NotFound), (503, Unavailable)])
def test_what_the_server_says_is_passed_on(status: int, error: type[DdlpError]) -> None:
    with server((status, detail("it says why"))) as client, pytest.raises(error, match="says why"):
        watch(client, "r", as_json=True)


def test_an_https_address_is_spoken_to_in_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    with server((200, event("end", END))) as client:
        monkeypatch.setattr(client, "url", client.url.replace("http://", "https://"))
        with pytest.raises(Unavailable, match="SSL"):
            watch(client, "r", as_json=True)
