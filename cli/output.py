"""How results are printed: aligned text for people, JSON for programs."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from ddlp.core.errors import DdlpError
from ddlp.core.exit_codes import ExitCode
from ddlp.core.units import size

JSON_OPTION = "--json"


def show(value: Any, as_json: bool, columns: list[str] | None = None) -> None:
    """Print a mapping line by line, or a list as a table of some columns."""
    if as_json:
        print(json.dumps(value, indent=2))
    elif isinstance(value, list):
        _table([{name: text(name, row[name]) for name in columns or row} for row in value], columns)
    else:
        width = max(map(len, value), default=0)
        for name, item in value.items():
            print(f"{name:<{width}}  {text(name, item)}")


def show_lines(
    value: dict[str, Any], lines: Callable[[dict[str, Any]], list[str]], as_json: bool
) -> None:
    """Print an answer in words, or as it came."""
    print(json.dumps(value, indent=2) if as_json else "\n".join(lines(value)))


def fail(message: str) -> None:
    """One line on standard error."""
    print(f"ddlp: {message}", file=sys.stderr)


def fail_with(error: Exception, message: str, code: int, as_json: bool) -> None:
    """Say on standard error why a command failed: one line, or an object for programs."""
    if not as_json:
        fail(message)
        return
    kind = type(error).__name__ if isinstance(error, DdlpError) else ExitCode(code).name
    body = {"kind": kind, "message": message, "exit_code": int(code)}
    print(json.dumps({"error": body}), file=sys.stderr)


def text(name: str, value: Any) -> str:
    """A value as people read it; its name says whether it is a time or a number of bytes."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {text(key, item)}" for key, item in value.items()) or "-"
    if isinstance(value, list):
        between = "; " if any(isinstance(item, dict) for item in value) else ", "
        return between.join(text(name, item) for item in value) or "-"
    if isinstance(value, int | float) and name.endswith("_at"):
        return date(value)
    if isinstance(value, int | float) and name.endswith("bytes"):
        return size(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def date(at: float) -> str:
    """A time in the zone of whoever reads it, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _table(rows: list[dict[str, str]], columns: list[str] | None) -> None:
    if not rows:
        print("none yet")
        return
    names = columns or list(rows[0])
    widths = [max(len(name), *(len(row[name]) for row in rows)) for name in names]
    for line in [dict(zip(names, names, strict=True)), *rows]:
        print("  ".join(f"{line[n]:<{w}}" for n, w in zip(names, widths, strict=True)).rstrip())
