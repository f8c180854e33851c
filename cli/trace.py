"""Writes what was done when in a run as a trace that Perfetto and Chrome show."""

import json
import sys
from pathlib import Path
from typing import Any

from ddlp.core.client import Client
from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.messages.timeline import TimelineInfo
from ddlp.core.trace import trace

STDOUT = "-"


def write_trace(client: Client, run: str, seconds: float, out: str | None) -> dict[str, Any] | None:
    """Write the trace of a run's last seconds; returns what was written, if it was to a file."""
    name = client.get(f"/runs/{run}")["name"]
    answer = client.get(f"/runs/{run}/timeline?seconds={seconds:g}")
    timeline = TimelineInfo.model_validate(answer)
    if not timeline.spans:
        raise Conflict(
            f"run {name} did nothing in the last {seconds:g} s; "
            "ask for more with --seconds, or again while it is being trained"
        )
    text = json.dumps(trace(timeline, name), separators=(",", ":")) + "\n"
    file = out or f"{name}.trace.json"
    if file == STDOUT:
        sys.stdout.write(text)
    else:
        _write(Path(file), text)
    print("open it with https://ui.perfetto.dev or chrome://tracing", file=sys.stderr)
    if file == STDOUT:
        return None
    return {
        "run": name,
        "file": file,
        "spans": len(timeline.spans),
        "lanes": len(timeline.lanes),
        "dropped": timeline.dropped,
    }


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written ({error}); name another with --out"
        ) from error
