"""The first start: a dataset, a pipeline, a run and a trainer, asked for in one word."""

from enum import StrEnum

from pydantic import Field

from ddlp.core.messages.base import Message


class DemoState(StrEnum):
    """How far the first start has come."""

    IDLE = "idle"
    """Nobody has asked for it since the server was started."""
    DRAWING = "drawing"
    SCANNING = "scanning"
    STARTING = "starting"
    RUNNING = "running"
    """The run is there; `run` names it."""
    DONE = "done"
    """Its trainer has ended."""
    FAILED = "failed"

    @property
    def under_way(self) -> bool:
        """Whether the run is still to come."""
        return self in (DemoState.DRAWING, DemoState.SCANNING, DemoState.STARTING)


class DemoCreate(Message):
    """How large the demo is to be."""

    images: int = Field(2400, ge=48, le=100_000, description="Images to draw.")
    epochs: int = Field(4, ge=1, le=1000, description="Passes over them.")


class DemoInfo(Message):
    """How the demo stands."""

    state: DemoState
    words: str = Field(description="What is being done, or what came of it.")
    percent: int = Field(ge=0, le=100, description="Of the way to the run.")
    run: str | None = Field(None, description="The run's name, once it is made.")
    note: str | None = Field(None, description="What is missing, and what to do about it.")
