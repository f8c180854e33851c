"""How much of a run may lie unconsumed: asked for, and in force."""

from typing import Annotated

from pydantic import Field

from ddlp.core.messages.base import Message

CpuWindow = Annotated[int, Field(ge=1, le=100_000)]
StoreBytes = Annotated[int, Field(ge=1 << 20, lt=1 << 60)]

CPU_WINDOW = "Batches of the CPU prong that may lie unconsumed (1 to 100,000)"
CPU_BYTES = "Bytes of the CPU prong that may lie unconsumed (at least 1 MiB)"
CSD_BYTES = "Bytes of the CSD prong that may lie unconsumed (at least 1 MiB)"


class LimitsChange(Message):
    """Go on with other limits: more is given out at once, and what lies there is used up."""

    cpu_window: CpuWindow | None = Field(
        None, description=f"{CPU_WINDOW}; stays as it is where left out."
    )
    cpu_store_bytes: StoreBytes | None = Field(
        None, description=f"{CPU_BYTES}; stays as it is where left out."
    )
    csd_store_bytes: StoreBytes | None = Field(
        None, description=f"{CSD_BYTES}; stays as it is where left out."
    )


class LimitsInfo(Message):
    """The limits of a run: its own, and where it has none, those of the server as it is now."""

    cpu_window: int = Field(description=f"{CPU_WINDOW}.")
    cpu_store_bytes: int = Field(description=f"{CPU_BYTES}.")
    csd_store_bytes: int = Field(description=f"{CSD_BYTES}.")
    own: list[str] = Field(description="Which of these are the run's own.")
    batch_bytes: int | None = Field(
        description="Bytes that a full batch takes up in a store; null if its pipeline is unknown."
    )
    batches: dict[str, int] | None = Field(
        description="What comes of it while the run is active: batches of each prong that may be "
        "under way or lie unconsumed. A store with little room allows less than its bytes would."
    )
