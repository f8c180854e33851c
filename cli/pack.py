"""Asks a server to pack a dataset, and follows that to its end."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ddlp.cli.line import Line
from ddlp.cli.scan import scan_line
from ddlp.core.client import Client
from ddlp.core.errors import InvalidInput, NotFound
from ddlp.core.types import Prong
from ddlp.core.units import duration, size

_PERIOD_S = 0.2


@dataclass(frozen=True)
class Wish:
    """A dataset that is to be packed, and how."""

    client: Client
    dataset: str
    choice: dict[str, Any]
    on: Prong

    def forecast(self) -> dict[str, Any]:
        """What it would come to."""
        query = urlencode(self._given())
        found: dict[str, Any] = self.client.get(f"/datasets/{self.dataset}/forecast?{query}")
        return found

    def begin(self, name: str | None, into: Path | None) -> dict[str, Any]:
        """Have it packed; asking twice does no harm."""
        place = None if into is None else str(into.expanduser().absolute())
        more = {key: value for key, value in (("name", name), ("into", place)) if value}
        body = self._given() | more
        found: dict[str, Any] = self.client.post(f"/datasets/{self.dataset}/pack", body, once=True)
        return found

    def _given(self) -> dict[str, Any]:
        chosen = {key: value for key, value in self.choice.items() if value is not None}
        return chosen | {"on": self.on.value}


def follow(client: Client, name: str) -> dict[str, Any]:
    """What became of it; a packing that failed is an error with its reason."""
    with Line() as line:
        while True:
            info = _ask(client, name)
            if info["state"] == "packing":
                line.show(packing_line(info["packing"]))
            elif info["state"] == "scanning":
                line.show(scan_line(info["progress"]))
            else:
                break
            time.sleep(_PERIOD_S)
    if info["state"] == "failed":
        raise InvalidInput(f"{info['reason']}; the shards that are there are used by the next try")
    return info


def packing_line(now: dict[str, Any]) -> str:
    """How far a packing is."""
    who = f"packing on {now['on']}" + (" (emulated)" if now["emulated"] else "")
    if now["waiting"]:
        return f"{who}: waiting, since {now['waiting']}"
    parts = [
        f"{who}: {now['samples_done']:,} of {now['samples']:,} samples",
        f"{now['shards_done']:,} of {now['shards']:,} shards",
    ]
    if now["ratio"] is not None:
        parts.append(f"{size(now['bytes'])} ({now['ratio']:.2f} times)")
    if now["images_per_s"] is not None:
        parts.append(f"{now['images_per_s']:,.0f} images/s")
        parts.append(f"about {duration(now['seconds_left'])} left")
    return ", ".join(parts)


def summary(info: dict[str, Any]) -> dict[str, Any]:
    """What a dataset that was packed came to."""
    return {
        "name": info["name"],
        "state": info["state"],
        "place": info["uri"],
        "samples": f"{info['samples']:,}",
        **_content(info["packing"]),
        "pixels": info["pixels"],
        "version": info["version"],
    }


def described(info: dict[str, Any]) -> dict[str, Any]:
    """A dataset with how it was packed, line by line."""
    if info["packing"] is None:
        return info
    lines: dict[str, Any] = {}
    for name, value in info.items():
        lines |= _packing_lines(value) if name == "packing" else {name: value}
    return lines


def _packing_lines(packing: dict[str, Any]) -> dict[str, str]:
    said = {key: value for key, value in packing["options"].items() if value not in (None, False)}
    done = f"{packing['samples_done']:,} of {packing['samples']:,} samples"
    return {
        "packed from": packing["origin"],
        "packed on": packing["on"] + (" (emulated)" if packing["emulated"] else ""),
        "packed with": ", ".join(f"{key} {value}" for key, value in said.items()),
        "packed": f"{done}, {packing['shards_done']:,} of {packing['shards']:,} shards",
        **_content(packing),
    }


def _content(packing: dict[str, Any]) -> dict[str, str]:
    """What the shards hold."""
    ratio = "" if packing["ratio"] is None else f" ({packing['ratio']:.2f} times)"
    return {
        "records": f"{packing['records']:,}",
        "kept as they were": f"{packing['kept']:,}",
        "left out": f"{packing['skipped']:,}",
        "size": size(packing["bytes"]) + ratio,
    }


def expectation(packing: dict[str, Any]) -> list[str]:
    """What a packing that was just begun will come to."""
    if packing["forecast"] is not None:
        return forecast_lines(packing["forecast"])
    return [f"no forecast: {packing['no_forecast']}"] if packing["no_forecast"] else []


def forecast_lines(found: dict[str, Any]) -> list[str]:
    """A forecast in a few plain lines."""
    faster = found["decode_us"] / max(found["packed_decode_us"], 1e-9)
    lines = [
        f"{found['samples']:,} samples, {size(found['origin_bytes'])}, would become "
        f"{size(found['bytes'])} ({found['ratio']:.2f} times); "
        f"{100 * found['record_share']:.0f} % as records",
        f"decoding takes {found['packed_decode_us']:,.0f} instead of {found['decode_us']:,.0f} µs "
        f"a sample ({faster:.1f} times as fast)",
    ]
    if found["seconds"] is not None:
        many = "process" if found["processes"] == 1 else "processes"
        lines.append(
            f"packing takes about {_at_least(found['seconds'])} on {found['processes']} {many}"
        )
    else:
        lines.append(f"packing takes about {_at_least(found['pack_s'])} of one host core's time")
    return lines


def _at_least(seconds: float) -> str:
    return duration(max(1.0, seconds))


def _ask(client: Client, name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = client.get(f"/datasets/{name}")
    except NotFound as error:
        raise InvalidInput(f"dataset {name} was removed while it was packed") from error
    return found
