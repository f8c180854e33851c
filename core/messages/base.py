"""What every message is."""

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from ddlp.core.bounds import Bounded

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

DatasetName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(@[0-9a-f]{8,64})?$", max_length=80)
]
"""A dataset, or one version of it: `photos`, `photos@1a2b3c4d`."""

_ADDRESSES = frozenset({"new", "compare", "cancel", "forecast"})


def _not_an_address(name: str) -> str:
    """A run of such a name would have no page of its own."""
    if name in _ADDRESSES:
        raise ValueError(f"{name} is an address of the pages; choose another name")
    return name


RunName = Annotated[Name, AfterValidator(_not_an_address)]
"""Stands in addresses behind /runs/, beside a few words that mean something else there."""


Count = Annotated[int, Field(ge=0, lt=2**31)]
"""A number of things, or one in a row: as large as a column takes."""

Bytes = Annotated[int, Field(ge=0, lt=2**63)]

MOST_S = 1e11
"""More than any clock shows: files without a date seem to be from 1970, or from before."""

Seconds = Annotated[float, Field(ge=0, le=MOST_S)]
"""A duration, an age, or a reading of a steady clock."""


class Message(Bounded):
    """A body that takes exactly its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
