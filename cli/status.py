"""Says how a server stands: its devices, what waits, and the runs under way, on one screen."""

from typing import Any
from urllib.parse import quote, urlencode

from ddlp.cli.output import show
from ddlp.core.client import Client
from ddlp.core.lifecycle import ACTIVE
from ddlp.core.types import EpochState
from ddlp.core.units import epoch_of

_RUNS = 20
"""More than these do not fit one screen."""


def read_status(client: Client) -> dict[str, Any]:
    """What is asked of the server for one screen."""
    states = sorted(state.value for state in ACTIVE)
    asked = urlencode({"state": states, "limit": _RUNS + 1}, doseq=True)
    devices = client.get("/devices")
    found = client.get(f"/runs?{asked}")
    runs = [_run(client, info) for info in found[:_RUNS]]
    return {
        "server": client.url,
        "devices": [_device(device) for device in devices],
        "queue": {
            "at_devices": sum(device["holds"] or 0 for device in devices),
            "ready": sum(run["ready"] for run in runs),
        },
        "runs": runs,
        "more_runs": len(found) > _RUNS,
    }


def print_status(found: dict[str, Any], process: int | None) -> None:
    """Print it for people."""
    queue = found["queue"]
    own = "" if process is None else f" (process {process}; ddlp down ends it)"
    print(f"server  {found['server']} is up{own}")
    print(f"queue   {queue['at_devices']:,} batches at devices, {queue['ready']:,} ready")
    print("\nDevices")
    show(found["devices"], False)
    print("\nRuns under way")
    show(found["runs"], False)
    if found["more_runs"]:
        print("There are more; see: ddlp run list")


def _device(device: dict[str, Any]) -> dict[str, Any]:
    names = ("name", "prong", "emulated", "health", "slots", "holds", "images_per_s")
    return {name: device[name] for name in names}


def _run(client: Client, info: dict[str, Any]) -> dict[str, Any]:
    """A run with the epoch it is in, and what lies ready for its trainers."""
    epochs = client.get(f"/runs/{quote(info['id'], safe='')}/epochs")
    open_ones = [epoch for epoch in epochs if epoch["state"] == EpochState.OPEN.value]
    current = open_ones[0] if open_ones else None
    ready = sum(
        sum(epoch["made"].values()) - (epoch["consumed"] - epoch["taken_over"])
        for epoch in open_ones
    )
    return {
        "name": info["name"],
        "state": info["state"],
        "epoch": None if current is None else epoch_of(current["number"], info["epochs"]),
        "consumed": None if current is None else f"{current['consumed']}/{current['batches']}",
        "ready": max(0, ready),
        "held_up": info["held_up"],
    }
