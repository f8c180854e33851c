"""How results are printed: aligned text for people, JSON for programs."""

import json
import sys
from collections.abc import Callable
from typing import Any


def show(value: Any, as_json: bool, columns: list[str] | None = None) -> None:
    """Print a mapping line by line, or a list as a table of some columns."""
    if as_json:
        print(json.dumps(value, indent=2))
    elif isinstance(value, list):
        _table([{name: _text(row[name]) for name in columns or row} for row in value], columns)
    else:
        width = max(map(len, value), default=0)
        for name, item in value.items():
            print(f"{name:<{width}}  {_text(item)}")


def show_lines(
    value: dict[str, Any], lines: Callable[[dict[str, Any]], list[str]], as_json: bool
) -> None:
    """Print an answer in words, or as it came."""
    print(json.dumps(value, indent=2) if as_json else "\n".join(lines(value)))


def fail(message: str) -> None:
    """One line on standard error."""
    print(f"ddlp: {message}", file=sys.stderr)


def _table(rows: list[dict[str, str]], columns: list[str] | None) -> None:
    if not rows:
        print("none yet")
        return
    names = columns or list(rows[0])
    widths = [max(len(name), *(len(row[name]) for row in rows)) for name in names]
    for line in [dict(zip(names, names, strict=True)), *rows]:
        print("  ".join(f"{line[n]:<{w}}" for n, w in zip(names, widths, strict=True)).rstrip())


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value)
