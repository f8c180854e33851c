"""The folders below which datasets may be read."""

from pydantic import Field

from ddlp.core.messages.base import Message
from ddlp.core.types import RootState


class RootCreate(Message):
    """Allow a folder."""

    path: str = Field(min_length=1, max_length=4096, description="Folder on the server.")
    force: bool = Field(False, description="Allow even `/`: every file that the server can read.")


class RootInfo(Message):
    """An allowed folder."""

    path: str
    from_settings: bool = Field(
        description="Whether `ddlp up --allow` or DDLP_DATASET_ROOTS names it; it stays until a "
        "restart without that."
    )
    added_at: float | None = Field(description="When it was added, if it was.")
    added_by: str | None = Field(description="Name of the key that added it, or `local`.")
    state: RootState = Field(description="Whether it can be read now.")
    datasets: list[str] = Field(description="Names of the datasets below it.")


class RootAdded(RootInfo):
    """A folder that is allowed from now on."""

    note: str = Field(description="What changed by it, in a sentence.")


class RootRemoved(Message):
    """A folder that was removed."""

    removed: str
    datasets: list[str] = Field(
        description="Datasets that are outside all allowed folders now; they stay registered."
    )
    note: str = Field(description="What changed by it, in a sentence.")
