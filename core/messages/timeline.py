"""What was done when in a run: the spans of its last minutes, lane by lane."""

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from ddlp.core.messages.base import Message
from ddlp.core.types import Activity

MAX_SPANS = 20_000
"""How many spans an answer holds at most; what was dropped is counted."""


class LaneKind(StrEnum):
    """Who a lane belongs to."""

    CPU = "cpu"
    CSD = "csd"
    READER = "reader"
    TRAINER = "trainer"


class LaneInfo(Message):
    """Somebody who does one thing after another, or several at once."""

    name: str = Field(description="A device's name, or `rank N`.")
    kind: LaneKind
    emulated: bool = False


class SpanInfo(Message):
    """One stretch of one lane."""

    lane: int = Field(ge=0, description="Which one of the timeline's lanes.")
    activity: Activity
    start_at: float = Field(allow_inf_nan=False, description="Seconds since 1970, server's clock.")
    seconds: float = Field(ge=0, allow_inf_nan=False)
    epoch: int = Field(ge=0)
    batch: int | None = Field(None, ge=0, description="None for a wait, which is not about one.")
    note: str = Field("", description="The path that was read by, what was waited for.")

    @property
    def end_at(self) -> float:
        """When it was over, by the server's clock."""
        return self.start_at + self.seconds


class TimelineInfo(Message):
    """Who did what in the last minutes of a run."""

    now: float = Field(allow_inf_nan=False, description="Seconds since 1970, server's clock.")
    lanes: list[LaneInfo]
    spans: list[SpanInfo] = Field(max_length=MAX_SPANS)
    dropped: int = Field(0, ge=0, description="Spans of this time that were not kept.")

    @model_validator(mode="after")
    def _lanes_are_known(self) -> Self:
        highest = max((span.lane for span in self.spans), default=-1)
        if highest >= len(self.lanes):
            raise ValueError(f"a span is of lane {highest}, and there are {len(self.lanes)}")
        return self
