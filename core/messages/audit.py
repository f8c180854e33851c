"""What the server tells of who did what."""

from typing import Any

from pydantic import Field

from ddlp.core.messages.base import Message


class AuditInfo(Message):
    """One thing that was done, or that happened to something."""

    id: int = Field(description="Grows: ask for older ones with before.")
    at: float = Field(description="Seconds since 1970 (UTC).")
    actor: str = Field(description="Who did it: the name of a key, or local.")
    action: str = Field(description="What was done, as group.action: run.paused, dataset.add.")
    subject: str = Field(description="The name of the run, dataset, device … it was done to.")
    detail: dict[str, Any] = Field(description="What belongs to it, by action.")
    words: str = Field(description="The same as a sentence, without its subject.")
