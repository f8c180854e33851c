"""Logs name what they are about, as lines for people and as JSON for programs."""

import io
import json
import logging
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from ddlp.core import logs
from ddlp.core.logs import AboutFilter, JsonFormatter, TextFormatter, about

log = logging.getLogger("ddlp.test")


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, which is as it was again afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("ddlp")
    before = root.handlers, root.level, ours.level
    yield root
    root.handlers, root.level, ours.level = before
    root.manager._clear_cache()  # type: ignore[attr-defined]
    logging.captureWarnings(False)


@pytest.fixture
def text(root: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is logged as text."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    logs.configure("text")
    return sys.stderr  # type: ignore[return-value]


@pytest.fixture
def objects(root: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is logged as JSON."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    logs.configure("json")
    return sys.stderr  # type: ignore[return-value]


def parsed(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_text_lines_end_with_what_they_are_about(text: io.StringIO) -> None:
    with about(run="r50", epoch=0, batch=3):
        log.warning("it failed: %s", "why")
    log.info("plain")
    first, second = text.getvalue().splitlines()
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    wanted = r" WARNING ddlp\.test: it failed: why \[run=r50 epoch=0 batch=3\]"
    assert re.fullmatch(time + wanted, first)
    assert re.fullmatch(time + r" INFO ddlp\.test: plain", second)


def test_a_message_cannot_pass_for_another_line(text: io.StringIO) -> None:
    log.warning("a name\n2026-01-01T00:00:00.000Z ERROR ddlp: forged")
    _, second = text.getvalue().splitlines()
    assert second.startswith("    ")


def test_nothing_reaches_a_terminal_that_it_would_obey(text: io.StringIO) -> None:
    with about(device="x\x1b]0;title\x07"):
        log.warning("a name \x1b[2J\x9b31m \x00\r\u202e zwölf\ttab")
    try:
        raise ValueError("seven\x1b[0m")
    except ValueError:
        log.exception("it broke")
    said = text.getvalue()
    assert all(c.isprintable() or c in "\n\t" for c in said)
    assert r"a name \x1b[2J\x9b31m \x00\r\u202e zwölf" in said
    assert r"ValueError: seven\x1b[0m" in said


def test_an_object_a_line_holds_just_what_is_known(objects: io.StringIO) -> None:
    with about(run="r50", epoch=2, batch=0, device="csd0"):
        log.error("zwölf\nlines")
    log.info("plain")
    first, second = parsed(objects)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "level": "ERROR",
        "logger": "ddlp.test",
        "message": "zwölf\nlines",
        "run": "r50",
        "epoch": 2,
        "batch": 0,
        "device": "csd0",
    }
    assert set(second) == {"time", "level", "logger", "message"}


@pytest.mark.parametrize("kind", ["text", "objects"])
def test_exceptions_are_told_in_full(kind: str, request: pytest.FixtureRequest) -> None:
    written = request.getfixturevalue(kind)
    try:
        raise ValueError("seven")
    except ValueError:
        log.exception("it broke")
    if kind == "text":
        assert written.getvalue().endswith("ValueError: seven\n")
    else:
        [line] = parsed(written)
        assert line["exception"].startswith("Traceback")
        assert line["exception"].endswith("ValueError: seven")


def test_what_it_is_about_nests_and_is_restored(objects: io.StringIO) -> None:
    def fail() -> None:
        with about(run="b", epoch=1):
            log.info("inner")
            raise RuntimeError

    with about(run="a", device="cpu"):
        with pytest.raises(RuntimeError):
            fail()
        log.info("outer")
    log.info("none")
    found = [{k: v for k, v in line.items() if k in logs._FIELDS} for line in parsed(objects)]
    assert found == [
        {"run": "b", "epoch": 1, "device": "cpu"},
        {"run": "a", "device": "cpu"},
        {},
    ]


def test_threads_do_not_mix_what_they_are_about(objects: io.StringIO) -> None:
    barrier = threading.Barrier(2)

    def work(run: str) -> None:
        with about(run=run):
            barrier.wait(10)
            log.info(run)

    threads = [threading.Thread(target=work, args=[name]) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {line["message"]: line["run"] for line in parsed(objects)} == {"a": "a", "b": "b"}


def test_what_a_line_says_itself_comes_first(objects: io.StringIO) -> None:
    with about(run="a", batch=1):
        log.info("x", extra={"run": "b"})
    [line] = parsed(objects)
    assert (line["run"], line["batch"]) == ("b", 1)


def test_libraries_are_heard_from_warnings_on(objects: io.StringIO) -> None:
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("some.library").warning("trouble")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("old", stacklevel=1)
    first, second = parsed(objects)
    assert (first["logger"], first["message"]) == ("some.library", "trouble")
    assert second["logger"] == "py.warnings"


def test_to_configure_twice_does_not_log_twice(root: logging.Logger) -> None:
    logs.configure("text")
    logs.configure("json")
    [handler] = root.handlers
    assert isinstance(handler.formatter, JsonFormatter)
    logs.configure("text")
    [handler] = root.handlers
    assert isinstance(handler.formatter, TextFormatter)


def test_the_filter_lets_everything_pass() -> None:
    record = logging.makeLogRecord({"msg": "x"})
    with about(device="cpu"):
        assert AboutFilter().filter(record)
    assert record.device == "cpu"  # type: ignore[attr-defined]


def test_a_process_logs_one_object_a_line_to_standard_error() -> None:
    code = """
import logging
from ddlp.core import logs

logs.configure("json")
log = logging.getLogger("ddlp.there")
with logs.about(run="r50", epoch=1):
    log.info("begun")
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("broken")
print("output")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "output\n"
    first, second = [json.loads(line) for line in done.stderr.splitlines()]
    assert (first["level"], first["message"], first["run"]) == ("INFO", "begun", "r50")
    assert "ZeroDivisionError" in second["exception"]
