"""Follows a run in the terminal."""

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from ddlp.core.client import Client

_SILENCE_S = 30


def watch(client: Client, run: str, as_json: bool) -> None:
    """Print a line for every snapshot until the run is over."""
    client.get(f"/runs/{run}")
    for kind, data in _events(client.url, run):
        if as_json:
            print(json.dumps({"event": kind, **data}), flush=True)
        elif kind == "snapshot":
            print(_line(data), flush=True)
        else:
            print(f"{data['state']}" + (f": {data['reason']}" if data["reason"] else ""))


def _line(seen: dict[str, Any]) -> str:
    cpu, csd = seen["cpu"], seen["csd"]
    epoch = "-" if seen["epoch"] is None else seen["epoch"]
    return (
        f"{seen['state']:<9} epoch {epoch}  {seen['consumed']}/{seen['batches']} batches consumed  "
        f"cpu → {cpu['taken']} ({cpu['images_per_s']:.0f} img/s)  "
        f"csd ← {csd['taken']} ({csd['images_per_s']:.0f} img/s)"
    )


def _events(url: str, run: str) -> Iterator[tuple[str, dict[str, Any]]]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_SILENCE_S)
    connection.request("GET", f"{parts.path}/api/v1/runs/{run}/events")
    response = connection.getresponse()
    kind = ""
    for raw in response:
        name, _, value = raw.decode().rstrip("\n").partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)
    connection.close()
