"""Fetches the certificates of a run, or reads them from a file, and has them checked."""

import json
from pathlib import Path
from typing import Any

from ddlp.core.certificate import OF_THE_RUN
from ddlp.core.client import Client
from ddlp.core.errors import InvalidInput, NotFound
from ddlp.core.proof import check

_FORMAT = "ddlp-certificates-2"


def collect(client: Client, run: str) -> dict[str, Any]:
    """All certificates of a run, with what they must fit: can be kept, and checked anywhere.

    Those of a run that it took over from come with them.
    """
    found = _collect(client, run, None)
    return {"format": _FORMAT, **found}


def _collect(client: Client, run: str, until: int | None) -> dict[str, Any]:
    info = client.get(f"/runs/{run}")
    begun = [
        epoch["number"]
        for epoch in _begun(client.get(f"/runs/{run}/epochs"))
        if until is None or epoch["number"] <= until
    ]
    certificates = [client.get(f"/runs/{run}/epochs/{n}/certificate") for n in begun]
    kept = ("id", "name", "epochs", "storage", *OF_THE_RUN)
    found: dict[str, Any] = {
        "run": {**{name: info[name] for name in kept}, "begun": begun},
        "certificates": certificates,
    }
    origin = next((c["origin"] for c in certificates if c["origin"] is not None), None)
    if origin is not None:
        try:
            found["origin"] = _collect(client, origin["run"], origin["epoch"])
        except NotFound:  # a local run, or one that was deleted
            found["origin"] = None
    return found


def _begun(epochs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The epochs that were begun, without those that were only prepared behind them."""
    while epochs and not epochs[-1]["begun"]:
        epochs = epochs[:-1]
    return epochs


def read(path: Path) -> dict[str, Any]:
    """Certificates that were written to a file."""
    try:
        found = json.loads(path.read_text())
        if found["format"] != _FORMAT:
            raise InvalidInput(f"{path} is of format {found['format']}, not {_FORMAT}")
        return {
            **{name: found[name] for name in ("run", "certificates")},
            "origin": found.get("origin"),
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} holds no certificates ({error!r})") from error


def verify_run(client: Client, run: str) -> dict[str, Any]:
    """Check the certificate of each epoch of a run, and name what it excepts."""
    return check(collect(client, run))
