"""What every message is."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Message(BaseModel):
    """A body that takes exactly its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
