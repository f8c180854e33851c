"""Asks a running server."""

from typing import Any

from ddlp.core.client import Client
from ddlp.core.home_lock import server_url
from ddlp.core.settings import load_settings

_TIMEOUT_S = 60.0


def client(url: str | None, timeout_s: float = _TIMEOUT_S) -> Client:
    """A client for the address given, or for the one that the settings lead to."""
    return Client(url or server_url(load_settings()), timeout_s=timeout_s, patience_s=2)


def get(url: str | None, path: str) -> Any:
    """The answer to a GET."""
    with client(url) as server:
        return server.get(path)


def post(url: str | None, path: str, body: dict[str, Any]) -> Any:
    """The answer to a POST that may be repeated."""
    with client(url) as server:
        return server.post(path, body)


def make(url: str | None, path: str, body: dict[str, Any], timeout_s: float = _TIMEOUT_S) -> Any:
    """The answer to a POST that makes something, once; what is None is left out."""
    given = {key: value for key, value in body.items() if value is not None}
    with client(url, timeout_s) as server:
        return server.post(path, given, once=True)


def delete(url: str | None, path: str) -> Any:
    """The answer to a DELETE."""
    with client(url) as server:
        return server.delete(path)
