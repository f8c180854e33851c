"""Events as a person reads them: with dates instead of seconds."""

from datetime import UTC, datetime
from typing import Any

COLUMNS = ["id", "at", "actor", "subject", "words"]


def dated(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same events, each with the date and time (UTC) at which it happened."""
    return [{**event, "at": _date(event["at"])} for event in events]


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
