"""What the database keeps, and for how long: without this it would grow with every run."""

from sqlalchemy.orm import Session

from ddlp.core.settings import Settings
from ddlp.server.idempotency import forget_answers
from ddlp.server.rollups import forget_rollups


def forget(session: Session, settings: Settings, now: float) -> None:
    """Remove what is older than it is kept, a part at a time."""
    forget_rollups(session, settings, now)
    forget_answers(session, settings.keep_answers_h, now)
