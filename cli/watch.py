"""Follows a run in the terminal."""

import http.client
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlsplit

from ddlp.core.client import Client
from ddlp.core.errors import DdlpError, Unavailable, from_status

_SILENCE_S = 30.0
_TRIES = 5
_PAUSE_S = 1.0

Event = tuple[str, dict[str, Any]]


def watch(client: Client, run: str, as_json: bool) -> str:
    """Print a line for every snapshot until the run is over; returns the state it ended in."""
    client.get(f"/runs/{run}")
    state = ""
    for kind, data in _follow(client.url, run):
        state = data["state"]
        print(json.dumps({"event": kind, **data}) if as_json else _line(kind, data), flush=True)
    return state


def _line(kind: str, seen: dict[str, Any]) -> str:
    if kind == "end":
        return f"{seen['state']}: {seen['reason']}" if seen["reason"] else str(seen["state"])
    cpu, csd = seen["cpu"], seen["csd"]
    epoch = "-" if seen["epoch"] is None else seen["epoch"]
    return (
        f"{seen['state']:<9} epoch {epoch}  {seen['consumed']}/{seen['batches']} batches consumed  "
        f"cpu → {cpu['taken']} ({cpu['images_per_s']:.0f} img/s)  "
        f"csd ← {csd['taken']} ({csd['images_per_s']:.0f} img/s)  "
        f"delivered {_rate(seen['delivered_images_per_s'])} img/s"
    )


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _follow(url: str, run: str) -> Iterator[Event]:
    """Events up to the one that ends the run; gives up after a few tries that brought none."""
    tries = 0
    while True:
        try:
            for kind, data in _events(url, run):
                tries = 0
                yield kind, data
                if kind == "end":
                    return
            raise Unavailable(f"{url} broke off before run {run} was over; watch it again")
        except Unavailable:
            tries += 1
            if tries == _TRIES:
                raise
        time.sleep(_PAUSE_S)


def _events(url: str, run: str) -> Iterator[Event]:
    """What one connection brings, to the end of the run or to where it is cut."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    with closing(kind(parts.hostname or "", parts.port, timeout=_SILENCE_S)) as connection:
        try:
            connection.request("GET", f"{parts.path}/api/v1/runs/{quote(run, safe='')}/events")
            response = connection.getresponse()
            if response.status != 200:
                raise _failure(response.status, response.read())
            yield from _parse(response)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(
                f"no events from {url} ({error}); is it up? start it with: ddlp up"
            ) from error


def _parse(lines: Iterable[bytes]) -> Iterator[Event]:
    """Server-sent events; one whose empty line did not come was cut off, and is left out."""
    kind, data = "", ""
    for raw in lines:
        line = raw.decode(errors="replace").rstrip("\r\n")
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            data += value
        elif not line and data:
            yield kind, json.loads(data)
            kind, data = "", ""


def _failure(status: int, raw: bytes) -> DdlpError:
    try:
        return from_status(status, str(json.loads(raw)["detail"]))
    except (ValueError, KeyError, TypeError):
        return from_status(status, f"the server answered with HTTP status {status}; see its log")
