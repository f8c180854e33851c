"""Who did what, read back page by page."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.messages.audit import AuditInfo
from ddlp.server.audit_words import words
from ddlp.server.models import AuditEvent


def page(
    session: Session,
    subject: str | None = None,
    action: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[AuditInfo]:
    """Events, the newest first; an action without a dot stands for its whole group."""
    query = select(AuditEvent).order_by(AuditEvent.id.desc()).limit(limit)
    if subject is not None:
        query = query.where(AuditEvent.subject == subject)
    if action is not None:
        exact = AuditEvent.action == action
        group = AuditEvent.action.startswith(f"{action}.", autoescape=True)
        query = query.where(exact if "." in action else group)
    if before is not None:
        query = query.where(AuditEvent.id < before)
    return [_info(row) for row in session.scalars(query)]


def _info(row: AuditEvent) -> AuditInfo:
    return AuditInfo(
        id=row.id,
        at=row.at,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        detail=row.detail,
        words=words(row.action, row.detail),
    )
