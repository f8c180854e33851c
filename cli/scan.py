"""Follows the scan of a dataset to its end, with a line about how far it is."""

import sys
import time
from typing import Any

from ddlp.core.client import Client
from ddlp.core.errors import InvalidInput, NotFound

_PERIOD_S = 0.2
_LINE_EVERY_S = 10.0


def follow_scan(client: Client, name: str) -> dict[str, Any]:
    """What became of a dataset; a scan that failed is an error with its reason."""
    with _Line() as line:
        while True:
            info: dict[str, Any] = _ask(client, name)
            if info["state"] != "scanning":
                break
            line.show(info["progress"])
            time.sleep(_PERIOD_S)
    if info["state"] == "failed":
        raise InvalidInput(info["reason"])
    return info


def _ask(client: Client, name: str) -> Any:
    try:
        return client.get(f"/datasets/{name}")
    except NotFound as error:
        raise InvalidInput(f"dataset {name} was removed while it was scanned") from error


class _Line:
    """One line that is written over on a terminal, and said now and then elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._said_at = time.monotonic()

    def __enter__(self) -> "_Line":
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def show(self, progress: dict[str, int]) -> None:
        """Say how far it is."""
        text = (
            f"scanning: {progress['done']:,} of {progress['found']:,} looked at, "
            f"{progress['rejected']:,} rejected, {progress['bytes'] / 1e6:,.0f} MB"
        )
        if self._terminal:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._said_at >= _LINE_EVERY_S:
            self._said_at = time.monotonic()
            print(text, file=sys.stderr, flush=True)
