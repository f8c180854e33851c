"""View models of the audit page: who did what to what, and when."""

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from ddlp.core.messages.audit import AuditInfo

_PLACES = {"run": "/runs/{}", "dataset": "/datasets/{}", "device": "/devices#device-{}"}
_GONE = ("dataset.remove", "device.remove")


@dataclass(frozen=True)
class Asked:
    """What the page is filtered by."""

    subject: str = ""
    action: str = ""
    before: int | None = None


@dataclass(frozen=True)
class AuditRow:
    """One event."""

    id: int
    at: float
    actor: str
    action: str
    subject: str
    place: str | None
    """Where the subject has a page."""
    words: str


@dataclass(frozen=True)
class AuditView:
    """A page of events, the newest first."""

    asked: Asked
    rows: list[AuditRow]
    older: str | None
    newest: str | None
    """Back to the first page, from a later one."""
    filtered: bool


def audit_view(asked: Asked, found: list[AuditInfo], shown: int) -> AuditView:
    """A page of so many events; `found` may hold one more, which tells that there are older."""
    rows = [_row(info) for info in found[:shown]]
    more = len(found) > shown
    return AuditView(
        asked=asked,
        rows=rows,
        older=_address(asked, rows[-1].id) if more else None,
        newest=_address(asked, None) if asked.before is not None else None,
        filtered=bool(asked.subject or asked.action),
    )


def _row(info: AuditInfo) -> AuditRow:
    group = info.action.split(".")[0]
    place = None if info.action in _GONE else _PLACES.get(group)
    return AuditRow(
        id=info.id,
        at=info.at,
        actor=info.actor,
        action=info.action,
        subject=info.subject,
        place=place.format(quote(info.subject, safe="")) if place else None,
        words=info.words,
    )


def _address(asked: Asked, before: int | None) -> str:
    given = {"subject": asked.subject, "action": asked.action, "before": before}
    query = urlencode({name: value for name, value in given.items() if value})
    return f"/audit?{query}" if query else "/audit"
