"""Runs beside each other."""

from pydantic import Field

from ddlp.core.messages.base import Message


class FigureInfo(Message):
    """One figure of a group of equal runs."""

    n: int = Field(description="Runs that it is known of.")
    mean: float | None
    half_interval: float | None = Field(description="Of 95 %; null with fewer than two runs.")
    change: float | None = Field(None, description="Relative to the base's mean.")
    change_low: float | None = Field(None, description="The 95 % interval of the change.")
    change_high: float | None = None
    clear: bool = Field(False, description="Whether that interval excludes no change.")


class GroupInfo(Message):
    """Runs that are repeats of each other."""

    runs: list[str]
    figures: dict[str, FigureInfo]


class DifferenceInfo(Message):
    """What was different between groups."""

    condition: str
    values: list[str | None] = Field(description="One a group.")


class ComparisonInfo(Message):
    """The first group is the base of all changes."""

    groups: list[GroupInfo]
    differences: list[DifferenceInfo]
