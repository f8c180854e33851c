"""Follows the scan of a dataset to its end, with a line about how far it is."""

import sys
import time
from typing import Any
from urllib.parse import urlencode

from ddlp.cli import ask
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


def add_dataset(url: str | None, body: dict[str, Any], wait: bool) -> dict[str, Any]:
    """Register a dataset, and follow its scan if that is wanted."""
    info: dict[str, Any] = ask.make(url, "/datasets", body)
    if not wait:
        return info
    with ask.client(url) as client:
        return follow_scan(client, info["name"])


def add_splits(url: str | None, body: dict[str, Any], wait: bool) -> list[dict[str, Any]]:
    """Register each split of a folder; one that has no labels is named and left out."""
    place = ask.get(url, f"/places?{urlencode({'prefix': body['uri']})}")
    if not place["splits"]:
        raise InvalidInput(
            place["problem"]
            or f"{body['uri']} holds no splits such as train and val; add it without --splits"
        )
    found = []
    for split in place["splits"]:
        if split["problem"] is not None:
            print(f"left out: {split['problem']}", file=sys.stderr)
            continue
        name = split["name"]
        if body["name"] is not None:
            name = f"{body['name']}-{split['uri'].rpartition('/')[2].lower()}"
        found.append(add_dataset(url, body | {"uri": split["uri"], "name": name}, wait))
    return found


def show_notes(info: dict[str, Any]) -> None:
    """Say on standard error what a scan left out beside files that are bad."""
    for note in info.get("notes", []):
        print(f"note: {note}", file=sys.stderr)


def follow_rescan(client: Client, name: str) -> dict[str, Any]:
    """What became of a dataset that is scanned again; one that failed is an error with its reason.

    The dataset itself can be used as it was, whatever comes of it.
    """
    with Line() as line:
        while True:
            info: dict[str, Any] = _ask(client, name)
            rescan = info["rescan"] or {"state": "unchanged"}
            if rescan["state"] != "scanning":
                break
            if rescan["progress"] is not None:
                line.show(scan_line(rescan["progress"]))
            time.sleep(_PERIOD_S)
    if rescan["state"] == "failed":
        raise InvalidInput(f"dataset {name} stays as it was: {rescan['reason']}")
    return info


def rescan_lines(info: dict[str, Any]) -> list[str]:
    """What a rescan came to, in words."""
    name, version, rescan = info["name"], info["version"][:12], info["rescan"]
    counts = f"{info['samples']:,} samples, {info['rejected']:,} rejected"
    if rescan["state"] == "scanning":
        return [f"dataset {name} is being scanned again; see: ddlp dataset show {name}"]
    if rescan["state"] == "unchanged":
        return [f"nothing changed: dataset {name} has version {version} still ({counts})"]
    lines = [f"dataset {name} has version {version} now ({counts})"]
    if rescan["earlier"] is not None:
        lines.append(f"the version before is kept for its runs as {rescan['earlier']}")
    return lines


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
