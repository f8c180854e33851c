"""Reads the list of a run's bad samples, which the server gives out page by page."""

from typing import Any

from ddlp.core.client import Client

_PAGE = 1000


def bad_samples(
    client: Client, run: str, before: int | None, limit: int | None
) -> list[dict[str, Any]]:
    """The newest entries below an id, at most `limit` of them; all where that is None."""
    found: list[dict[str, Any]] = []
    while limit is None or len(found) < limit:
        wanted = _PAGE if limit is None else min(_PAGE, limit - len(found))
        rest = "" if before is None else f"&before={before}"
        page = client.get(f"/runs/{run}/bad-samples?limit={wanted}{rest}")
        found += page
        if len(page) < wanted:
            break
        before = page[-1]["id"]
    return found
