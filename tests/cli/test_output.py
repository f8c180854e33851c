"""What commands print: aligned text for people, JSON for programs."""

import json
import re
import time
from typing import Any

import pytest

from ddlp.cli.output import fail, show

ROWS = [
    {"name": "r50", "state": "running", "rate": 123.456789, "ended": None},
    {"name": "a-longer-name", "state": "done", "rate": 0.5, "ended": 7},
]
Captured = pytest.CaptureFixture[str]


def printed(capsys: Captured, value: Any, **options: Any) -> list[str]:
    show(value, **{"as_json": False, **options})
    return capsys.readouterr().out.splitlines()


def test_a_list_is_a_table_with_aligned_columns(capsys: Captured) -> None:
    assert printed(capsys, ROWS, columns=["name", "state", "rate", "ended"]) == [
        "name           state    rate     ended",
        "r50            running  123.457  -",
        "a-longer-name  done     0.5      7",
    ]


def test_only_the_columns_asked_for_are_shown_in_their_order(capsys: Captured) -> None:
    assert printed(capsys, ROWS, columns=["state", "name"]) == [
        "state    name",
        "running  r50",
        "done     a-longer-name",
    ]


def test_all_columns_are_shown_where_none_were_asked_for(capsys: Captured) -> None:
    assert printed(capsys, ROWS)[0].split() == ["name", "state", "rate", "ended"]


@pytest.mark.parametrize("columns", [None, ["name"]])
def test_an_empty_list_says_so(capsys: Captured, columns: list[str] | None) -> None:
    assert printed(capsys, [], columns=columns) == ["none yet"]


def test_a_mapping_is_printed_line_by_line(capsys: Captured) -> None:
    value = {"name": "r50", "images_per_s": {"cpu": 1.5}, "epochs": [0, 1], "reason": None}
    assert printed(capsys, value) == [
        "name          r50",
        "images_per_s  cpu 1.5",
        "epochs        0, 1",
        "reason        -",
    ]


def test_dates_sizes_and_yes_are_words_of_people(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "localtime", time.gmtime)
    value = {"created_at": 1795010580.9, "total_bytes": 1_200_000_000, "live": True, "lossy": False}
    rows = [{**value, "seen_at": None}]
    table = printed(capsys, rows)[1]
    assert re.split(" {2,}", table) == ["2026-11-18 14:03", "1.2 GB", "yes", "no", "-"]
    assert printed(capsys, {"room": {"free_bytes": 5e6, "full": False}, "none": [], "d": {}}) == [
        "room  free_bytes 5.0 MB, full no",
        "none  -",
        "d     -",
    ]
    assert printed(capsys, {"epochs": [{"n": 0, "ok": True}, {"n": 1, "ok": False}]}) == [
        "epochs  n 0, ok yes; n 1, ok no"
    ]


def test_the_unknown_is_a_dash_and_zero_is_zero(capsys: Captured) -> None:
    assert printed(capsys, {"a": None, "b": 0, "c": 0.0}) == ["a  -", "b  0", "c  0"]


@pytest.mark.parametrize("value", [ROWS, [], {}, {"name": "ä", "x": None, "y": [1.5]}])
def test_json_is_the_value_itself(capsys: Captured, value: Any) -> None:
    show(value, as_json=True, columns=["name"])
    assert json.loads(capsys.readouterr().out) == value


def test_a_failure_is_one_line_on_standard_error(capsys: Captured) -> None:
    fail("there is no run x; see: ddlp run list")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "ddlp: there is no run x; see: ddlp run list\n"
