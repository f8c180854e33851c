"""Asks a running server."""

from typing import Any

from ddlp.core.client import Client
from ddlp.core.settings import load_settings


def client(url: str | None) -> Client:
    """A client for the address given, or for the one in the settings."""
    return Client(url or load_settings().server_url, patience_s=2)


def get(url: str | None, path: str) -> Any:
    """The answer to a GET."""
    with client(url) as server:
        return server.get(path)


def post(url: str | None, path: str, body: dict[str, Any]) -> Any:
    """The answer to a POST; what is None is left out."""
    with client(url) as server:
        return server.post(path, {key: value for key, value in body.items() if value is not None})
