"""The trace of a run: a file that a viewer takes, or one line that says why there is none."""

import json
import sys
from pathlib import Path
from typing import Any, Self

import pytest

from ddlp.cli import ask
from ddlp.cli.main import run
from ddlp.core.exit_codes import ExitCode

NOW = 1_700_000_000.0


class Server:
    """A client of a server with one run, which answers with one timeline."""

    def __init__(self, spans: int) -> None:
        self.spans = spans
        self.asked: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get(self, path: str) -> dict[str, Any]:
        self.asked.append(path)
        if "/timeline" not in path:
            return {"name": "r50"}
        made = {"lane": 0, "activity": "make", "seconds": 0.5, "epoch": 0, "note": ""}
        return {
            "now": NOW,
            "lanes": [{"name": "csd-0", "kind": "csd", "emulated": True}],
            "spans": [
                {**made, "start_at": NOW - 30 + number, "batch": number}
                for number in range(self.spans)
            ],
            "dropped": 7,
        }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    found = Server(spans=3)
    monkeypatch.setattr(ask, "client", lambda url: found)
    monkeypatch.chdir(tmp_path)
    return found


def ddlp(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The status that the command ends with."""
    monkeypatch.setattr(sys, "argv", ["ddlp", *arguments])
    with pytest.raises(SystemExit) as ended:
        run()
    return int(ended.value.code or 0)


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_the_file_is_called_like_the_run(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert ddlp(monkeypatch, "trace", "5eed", "--json") == 0
    assert server.asked == ["/runs/5eed", "/runs/5eed/timeline?seconds=120"]
    found = read(tmp_path / "r50.trace.json")
    assert [e["name"] for e in found["traceEvents"][-3:]] == ["batch 0", "batch 1", "batch 2"]
    assert found["otherData"]["run"] == "r50"
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "run": "r50",
        "file": "r50.trace.json",
        "spans": 3,
        "lanes": 1,
        "dropped": 7,
    }
    assert said.err == "open it with https://ui.perfetto.dev or chrome://tracing\n"


def test_file_and_time_can_be_chosen(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert ddlp(monkeypatch, "trace", "r50", "--out", "kept.json", "--seconds", "30.5") == 0
    assert server.asked[-1] == "/runs/r50/timeline?seconds=30.5"
    assert len(read(tmp_path / "kept.json")["traceEvents"]) == 6


def test_a_trace_that_is_printed_is_all_that_is_printed(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert ddlp(monkeypatch, "trace", "r50", "--out", "-") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["displayTimeUnit"] == "ms"
    assert "ui.perfetto.dev" in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_did_nothing_gets_one_line_and_no_file(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    server.spans = 0
    assert ddlp(monkeypatch, "trace", "r50") == ExitCode.REFUSED
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "ddlp: run r50 did nothing in the last 120 s; ask for more with --seconds, or again "
        "while it is being trained\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_gets_one_line(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ddlp(monkeypatch, "trace", "r50", "--out", "nowhere/r50.json") == 2
    said = capsys.readouterr()
    assert said.err.startswith("ddlp: nowhere/r50.json cannot be written")
    assert said.err.count("\n") == 1
