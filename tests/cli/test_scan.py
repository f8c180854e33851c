"""Following a scan: what is said meanwhile, and how it ends."""

from typing import Any

import pytest

from ddlp.cli import line, scan
from ddlp.cli.scan import follow_rescan, follow_scan, rescan_lines
from ddlp.core.errors import InvalidInput, NotFound

PROGRESS = {"found": 2000, "done": 500, "rejected": 2, "bytes": 3_000_000}


class Answers:
    """A client whose answers are known beforehand."""

    def __init__(self, *states: dict[str, Any] | Exception) -> None:
        self._states = list(states)

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/datasets/fruit"
        state = self._states.pop(0)
        if isinstance(state, Exception):
            raise state
        return {"progress": PROGRESS, "reason": None, **state}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_PERIOD_S", 0)


def follow(*states: dict[str, Any] | Exception) -> dict[str, Any]:
    return follow_scan(Answers(*states), "fruit")  # type: ignore[arg-type]


SCANNING = {"state": "scanning"}


def test_the_outcome_is_returned_and_a_quick_scan_says_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert follow(SCANNING, SCANNING, {"state": "ready"})["state"] == "ready"
    assert capsys.readouterr().err == ""


def test_a_long_scan_is_heard_of_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "LINE_EVERY_S", 0)
    follow(SCANNING, {"state": "ready"})
    said = capsys.readouterr().err
    assert said == "scanning: 500 of 2,000 looked at, 2 rejected, 3 MB\n"


def test_on_a_terminal_one_line_is_written_over_and_cleared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    follow(SCANNING, SCANNING, {"state": "ready"})
    said = capsys.readouterr().err
    assert said.count("500 of 2,000") == 2
    assert "\n" not in said
    assert said.endswith("\r\033[K")


def test_a_scan_that_failed_is_an_error_with_its_reason() -> None:
    with pytest.raises(InvalidInput, match="it holds no images"):
        follow(SCANNING, {"state": "failed", "reason": "it holds no images"})


def test_a_dataset_that_is_removed_meanwhile_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="was removed while it was scanned"):
        follow(SCANNING, NotFound("there is no dataset fruit"))


# Scanning again


def follow_again(*states: dict[str, Any] | Exception) -> dict[str, Any]:
    return follow_rescan(Answers(*states), "fruit")  # type: ignore[arg-type]


def again(state: str, **said: Any) -> dict[str, Any]:
    rescan = {"state": state, "progress": PROGRESS, "reason": None, "earlier": None, **said}
    info = {"name": "fruit", "version": "a" * 64, "samples": 2000, "rejected": 3}
    return {"state": "ready", **info, "rescan": rescan}


def test_a_rescan_is_followed_although_the_dataset_is_ready(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "LINE_EVERY_S", 0)
    info = follow_again(again("scanning"), again("done", earlier="fruit@12345678"))
    assert capsys.readouterr().err == "scanning: 500 of 2,000 looked at, 2 rejected, 3 MB\n"
    assert rescan_lines(info) == [
        "dataset fruit has version aaaaaaaaaaaa now (2,000 samples, 3 rejected)",
        "the version before is kept for its runs as fruit@12345678",
    ]


def test_a_rescan_that_found_nothing_new_says_so() -> None:
    [said] = rescan_lines(follow_again(again("unchanged")))
    assert said.startswith("nothing changed: dataset fruit has version aaaaaaaaaaaa still")


def test_a_rescan_that_failed_is_an_error_although_the_dataset_can_be_used() -> None:
    with pytest.raises(InvalidInput, match="fruit stays as it was: it is gone"):
        follow_again(again("scanning"), again("failed", reason="it is gone"))
