"""One bad sample of a batch: which it was, why, and what was put in its place."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

NAME_LENGTH = 4096
REASON_LENGTH = 2000


@dataclass(frozen=True)
class Mishap:
    """A sample that could not be used; without a substitute it was left out of its batch."""

    sample: Annotated[int, Field(ge=0, lt=2**63)]
    name: Annotated[str, Field(max_length=NAME_LENGTH)]
    """Its file, or its place in one."""
    reason: Annotated[str, Field(max_length=REASON_LENGTH)]
    substitute: Annotated[int, Field(ge=0, lt=2**63)] | None = None

    @property
    def action(self) -> str:
        """What was done, in a word."""
        return "skipped" if self.substitute is None else "replaced"
