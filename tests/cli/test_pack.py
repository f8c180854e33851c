"""Packing from the command line: what is asked for, said meanwhile, and said at the end."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ddlp.cli import pack as packing
from ddlp.cli import pack_locally
from ddlp.cli.main import app
from ddlp.cli.unpack import find_folder
from ddlp.core.errors import InvalidInput, NotFound
from ddlp.core.records import PackProgress

PACKING: dict[str, Any] = {
    "on": "cpu",
    "samples": 2000,
    "samples_done": 500,
    "shards": 2,
    "shards_done": 0,
    "records": 480,
    "kept": 19,
    "skipped": 1,
    "bytes": 3_000_000,
    "ratio": 1.2104,
    "images_per_s": 812.4,
    "seconds_left": 125.2,
    "waiting": None,
    "origin": "pets",
    "options": {"max_side": 400, "quality": None, "keep_heads": False, "on_bad": "fail"},
    "emulated": None,
    "forecast": None,
    "no_forecast": None,
}
INFO: dict[str, Any] = {
    "name": "pets-packed",
    "state": "packing",
    "reason": None,
    "uri": "/shards",
    "kind": "packed",
    "samples": 2000,
    "version": "abc",
    "lossy": True,
    "pixels": "lossy: longest side 400, quality 90",
    "packing": PACKING,
    "progress": {"found": 2000, "done": 500, "rejected": 0, "bytes": 5},
}
FORECAST: dict[str, Any] = {
    "samples": 10_000,
    "looked_at": 64,
    "origin_bytes": 1_100_000_000,
    "bytes": 1_331_000_000,
    "ratio": 1.21,
    "record_share": 0.97,
    "pack_s": 80.0,
    "seconds": 40.0,
    "processes": 2,
    "decode_us": 1650.0,
    "packed_decode_us": 410.0,
}


class Server:
    """A client whose answers are known beforehand."""

    def __init__(self, *states: dict[str, Any] | Exception) -> None:
        self._states = list(states)
        self.asked: list[str] = []
        self.sent: list[tuple[str, Any]] = []
        self.answer = INFO

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get(self, path: str) -> dict[str, Any]:
        self.asked.append(path)
        if "/forecast" in path:
            return FORECAST
        state = self._states.pop(0)
        if isinstance(state, Exception):
            raise state
        return {**INFO, **state}

    def post(self, path: str, body: Any, *, once: bool = False) -> dict[str, Any]:
        assert once
        self.sent.append((path, body))
        return self.answer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_PERIOD_S", 0)
    monkeypatch.setattr("ddlp.cli.line.LINE_EVERY_S", 0)


def run(server: Server, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    monkeypatch.setattr("ddlp.cli.ask.client", lambda *_: server)
    return CliRunner().invoke(app, ["dataset", *arguments], catch_exceptions=False)


def test_it_is_followed_to_its_end_and_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = {**PACKING, "waiting": "no csd device is alive", "on": "csd"}
    drive = {**PACKING, "on": "csd", "emulated": True, "ratio": None, "images_per_s": None}
    server = Server(
        {}, {"packing": waiting}, {"packing": drive}, {"state": "scanning"}, {"state": "ready"}
    )
    told = run(server, monkeypatch, "pack", "pets", "--into", "shards", "--max-side", "400")
    [(path, body)] = server.sent
    assert path == "/datasets/pets/pack"
    place = str(Path("shards").absolute())
    choice = {"max_side": 400, "keep_heads": False, "on_bad": "fail", "on": "cpu"}
    assert body == {**choice, "into": place}
    assert told.stderr.splitlines() == [
        "packing on cpu: 500 of 2,000 samples, 0 of 2 shards, 3.0 MB (1.21 times), 812 images/s, "
        "about 2 min 5 s left",
        "packing on csd: waiting, since no csd device is alive",
        "packing on csd (emulated): 500 of 2,000 samples, 0 of 2 shards",
        "scanning: 500 of 2,000 looked at, 0 rejected, 0 MB",
    ]
    said = dict(line.split("  ", 1) for line in told.stdout.splitlines())
    assert {name: text.strip() for name, text in said.items()} == {
        "name": "pets-packed",
        "state": "ready",
        "place": "/shards",
        "samples": "2,000",
        "records": "480",
        "kept as they were": "19",
        "left out": "1",
        "size": "3.0 MB (1.21 times)",
        "pixels": "lossy: longest side 400, quality 90",
        "version": "abc",
    }


def test_it_can_be_left_to_itself_and_read_by_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    told = run(Server(), monkeypatch, "pack", "pets", "--no-wait", "--json")
    assert json.loads(told.stdout) == INFO
    told = run(Server({"state": "ready"}), monkeypatch, "pack", "pets", "--json")
    assert json.loads(told.stdout) == {**INFO, "state": "ready"}


def test_a_packing_that_fails_or_is_removed_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="no room; the shards that are there are used by the"):
        packing.follow(Server({"state": "failed", "reason": "no room"}), "x")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="was removed while it was packed"):
        packing.follow(Server(NotFound("none")), "x")  # type: ignore[arg-type]


def test_a_forecast_is_a_few_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    told = run(server, monkeypatch, "pack", "pets", "--forecast", "--quality", "80", "--on", "csd")
    assert server.asked == [
        "/datasets/pets/forecast?quality=80&keep_heads=False&on_bad=fail&on=csd"
    ]
    assert server.sent == []
    assert told.stdout.splitlines() == [
        "10,000 samples, 1.1 GB, would become 1.3 GB (1.21 times); 97 % as records",
        "decoding takes 410 instead of 1,650 µs a sample (4.0 times as fast)",
        "packing takes about 40 s on 2 processes",
    ]
    unknown = packing.forecast_lines({**FORECAST, "seconds": None})
    assert unknown[-1] == "packing takes about 1 min 20 s of one host core's time"


def test_on_a_terminal_the_forecast_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({"state": "ready"})
    monkeypatch.setattr("ddlp.cli.pack_commands._is_followed", lambda: True)
    server.answer = {**INFO, "packing": {**PACKING, "forecast": FORECAST}}
    told = run(server, monkeypatch, "pack", "pets")
    assert "would become 1.3 GB" in told.stderr
    assert server.asked == ["/datasets/pets-packed"], "the server made it when it began"


def test_without_a_forecast_it_is_packed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({"state": "ready"})
    monkeypatch.setattr("ddlp.cli.pack_commands._is_followed", lambda: True)
    server.answer = {**INFO, "packing": {**PACKING, "no_forecast": "a.jpg cannot be read"}}
    told = run(server, monkeypatch, "pack", "pets")
    assert told.stderr.splitlines()[0] == "no forecast: a.jpg cannot be read"
    assert "state              ready" in told.stdout


def test_how_one_was_packed_is_shown_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    drive = {**PACKING, "on": "csd", "emulated": True}
    told = run(Server({"packing": drive}), monkeypatch, "show", "pets-packed")
    said = dict(line.split("  ", 1) for line in told.stdout.splitlines())
    found = {name: text.strip() for name, text in said.items()}
    assert "{" not in "".join(text for name, text in found.items() if name != "progress")
    assert found["packed on"] == "csd (emulated)"
    assert found["packed with"] == "max_side 400, on_bad fail"
    assert found["packed"] == "500 of 2,000 samples, 0 of 2 shards"
    assert found["pixels"] == "lossy: longest side 400, quality 90"
    told = run(Server({}), monkeypatch, "show", "pets-packed", "--json")
    assert json.loads(told.stdout) == INFO
    told = run(Server({"packing": None}), monkeypatch, "show", "pets")
    assert "packing   -" in told.stdout


def test_lossy_datasets_are_marked_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {**INFO, "name": name, "lossy": lossy, "rejected": 0, "total_bytes": 1}
        for name, lossy in (("a", True), ("b", False), ("c", None))
    ]
    monkeypatch.setattr("ddlp.cli.ask.get", lambda *_: rows)
    told = run(Server(), monkeypatch, "list")
    assert [line.split()[3] for line in told.stdout.splitlines()] == ["lossy", "yes", "no", "-"]


def test_what_was_removed_is_said_and_the_only_copy_goes_only_if_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def delete(_: object, path: str) -> dict[str, str]:
        asked.append(path)
        return {"removed": "pets-packed", "folder": "/home/packed/pets-packed"}

    monkeypatch.setattr("ddlp.cli.ask.delete", delete)
    told = run(Server(), monkeypatch, "delete", "pets-packed", "--yes")
    assert "folder   /home/packed/pets-packed" in told.stdout
    run(Server(), monkeypatch, "delete", "pets-packed", "--yes", "--only-copy")
    assert asked == ["/datasets/pets-packed", "/datasets/pets-packed?only_copy=true"]
    helped = run(Server(), monkeypatch, "--help").stdout
    assert "shards in the server's own" in helped


def test_it_is_said_that_to_allow_a_folder_is_to_allow_writing() -> None:
    helped = CliRunner().invoke(app, ["up", "--help"], env={"COLUMNS": "200"}).stdout
    assert "Folder below which datasets may be read, and packed ones written." in helped


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--local", "--name", "x"], "--name and --on are for a server"),
        (["--local", "--on", "csd"], "--name and --on are for a server"),
        (["--local"], "name a folder for the shards with --into"),
        (["--local", "--into", "pets/shards"], "whose contents would change by it"),
        (["--processes", "2"], "--processes is for --local"),
    ],
)
def test_what_does_not_go_together_is_said(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        run(Server(), monkeypatch, "pack", "pets", *arguments)


def test_a_path_is_not_taken_for_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="/data/pets is a path; register it with"):
        run(Server(), monkeypatch, "pack", "/data/pets")


def test_a_line_says_how_far_it_is_here() -> None:
    now = PackProgress(samples=500, shards=1, origin_bytes=100, bytes=121)
    line = pack_locally.packing_line(now, 2000)
    assert line == "packing: 500 of 2,000 samples, 1 shards, 121 bytes (1.21 times)"
    assert pack_locally.packing_line(PackProgress(), 5) == "packing: 0 of 5 samples, 0 shards"


def test_only_a_packed_dataset_that_is_seen_here_is_unpacked(tmp_path: Path) -> None:
    ready = {**INFO, "state": "ready"}
    assert find_folder({**ready, "uri": str(tmp_path)}) == tmp_path
    with pytest.raises(InvalidInput, match="is not seen from here"):
        find_folder({**ready, "uri": "/not/here"})
    with pytest.raises(InvalidInput, match="pets-packed is packing"):
        find_folder(INFO)
    with pytest.raises(InvalidInput, match="of kind folder; name a packed one"):
        find_folder({**ready, "kind": "folder"})
