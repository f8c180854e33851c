"""Asks a running server."""

import json
from pathlib import Path
from typing import Any

from ddlp.core.client import Client
from ddlp.core.settings import load_settings


def client(url: str | None) -> Client:
    """A client for the address given, for the one in the settings, or for what runs at home."""
    settings = load_settings()
    return Client(
        url or settings.url or running_url(settings.home) or settings.server_url, patience_s=2
    )


def running_url(home: Path) -> str | None:
    """Where the server of a home folder was started last."""
    try:
        return str(json.loads((home / "lock").read_text())["url"])
    except (OSError, ValueError, KeyError):
        return None


def get(url: str | None, path: str) -> Any:
    """The answer to a GET."""
    with client(url) as server:
        return server.get(path)


def post(url: str | None, path: str, body: dict[str, Any]) -> Any:
    """The answer to a POST; what is None is left out."""
    with client(url) as server:
        return server.post(path, {key: value for key, value in body.items() if value is not None})
