"""Follows the scan of a dataset to its end, with a line about how far it is."""

import time
from typing import Any

from ddlp.cli.line import Line
from ddlp.core.client import Client
from ddlp.core.errors import InvalidInput, NotFound

_PERIOD_S = 0.2


def follow_scan(client: Client, name: str) -> dict[str, Any]:
    """What became of a dataset; a scan that failed is an error with its reason."""
    with Line() as line:
        while True:
            info: dict[str, Any] = _ask(client, name)
            if info["state"] != "scanning":
                break
            line.show(scan_line(info["progress"]))
            time.sleep(_PERIOD_S)
    if info["state"] == "failed":
        raise InvalidInput(info["reason"])
    return info


def _ask(client: Client, name: str) -> Any:
    try:
        return client.get(f"/datasets/{name}")
    except NotFound as error:
        raise InvalidInput(f"dataset {name} was removed while it was scanned") from error


def scan_line(progress: dict[str, int]) -> str:
    """How far a scan is."""
    return (
        f"scanning: {progress['done']:,} of {progress['found']:,} looked at, "
        f"{progress['rejected']:,} rejected, {progress['bytes'] / 1e6:,.0f} MB"
    )
