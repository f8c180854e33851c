"""Fetches the certificates of a run, or reads them from a file, and has them checked."""

import json
from pathlib import Path
from typing import Any

from ddlp.core.certificate import OF_THE_RUN
from ddlp.core.client import Client
from ddlp.core.errors import InvalidInput
from ddlp.core.proof import check

_FORMAT = "ddlp-certificates-1"


def collect(client: Client, run: str) -> dict[str, Any]:
    """All certificates of a run, with what they must fit: can be kept, and checked anywhere."""
    info = client.get(f"/runs/{run}")
    numbers = [epoch["number"] for epoch in client.get(f"/runs/{run}/epochs")]
    kept = ("id", "name", "epochs", "storage", *OF_THE_RUN)
    return {
        "format": _FORMAT,
        "run": {name: info[name] for name in kept},
        "certificates": [
            client.get(f"/runs/{run}/epochs/{number}/certificate") for number in numbers
        ],
    }


def read(path: Path) -> dict[str, Any]:
    """Certificates that were written to a file."""
    try:
        found = json.loads(path.read_text())
        if found["format"] != _FORMAT:
            raise InvalidInput(f"{path} is of format {found['format']}, not {_FORMAT}")
        return {name: found[name] for name in ("run", "certificates")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} holds no certificates ({error!r})") from error


def verify_run(client: Client, run: str) -> dict[str, Any]:
    """Check the certificate of each epoch of a run, and name what it excepts."""
    return check(collect(client, run))
