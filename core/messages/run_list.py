"""What a list of runs can be asked for."""

from enum import StrEnum

from pydantic import ConfigDict, Field

from ddlp.core.messages.base import Message
from ddlp.core.types import RunState


class RunSort(StrEnum):
    """What a list of runs is ordered by."""

    CREATED = "created"
    NAME = "name"
    STATE = "state"
    DURATION = "duration"
    """How long it took; those that are not over count as longer than all others."""
    ENDED = "ended"
    """When it ended; those that are not over count as later than all others."""


class RunListQuery(Message):
    """Which runs, in which order, and which page of them."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)
    strict_numbers = False

    state: list[RunState] = Field([], description="Only these states; all where left out.")
    dataset: str | None = Field(None, max_length=255, description="Only of this dataset, by name.")
    strategy: str | None = Field(None, max_length=255, description="Only with this strategy.")
    pipeline: str | None = Field(
        None, max_length=255, description="Only with this pipeline, by name."
    )
    search: str | None = Field(
        None, max_length=200, description="A part of the name or the dataset, in any case."
    )
    after: float | None = Field(None, description="Created at this time or later.")
    before: float | None = Field(None, description="Created before this time.")
    sort: RunSort = Field(RunSort.CREATED, description="What they are ordered by.")
    ascending: bool = Field(False, description="The least first.")
    cursor: str | None = Field(
        None, max_length=400, description="A page, from the Link header of the one beside it."
    )
    limit: int = Field(50, ge=1, le=200, description="How many at most.")
