"""How many batches of a run may lie unconsumed: by its own limits, or by those of the server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ddlp.core.batchfile import layout
from ddlp.core.pipeline import Pipeline, PipelineSpec
from ddlp.core.settings import Settings
from ddlp.core.store import store_limit
from ddlp.core.types import Prong
from ddlp.server.models import Run

LIMITS = ("cpu_window", "cpu_store_bytes", "csd_store_bytes")
"""What a run may have of its own; the server's settings have the same names."""


@dataclass(frozen=True)
class Windows:
    """The limits that hold for a run."""

    cpu_window: int
    cpu_store_bytes: int
    csd_store_bytes: int

    @classmethod
    def of(cls, settings: Settings, run: Run) -> Self:
        """A run's own limits, and the server's where it has none."""
        own = {name: getattr(run, name) for name in own_limits(run)}
        return cls(**{name: getattr(settings, name) for name in LIMITS} | own)

    def stored(self, nbytes: int, free: Mapping[Prong, int | None]) -> dict[Prong, int]:
        """The batches of each prong that may lie in stores which have so much room."""
        cpu = store_limit(nbytes, self.cpu_store_bytes, free[Prong.CPU])
        csd = store_limit(nbytes, self.csd_store_bytes, free[Prong.CSD])
        return {Prong.CPU: min(cpu, self.cpu_window), Prong.CSD: csd}


def own_limits(run: Run) -> list[str]:
    """Which limits a run has of its own."""
    return [name for name in LIMITS if getattr(run, name) is not None]


def batch_bytes(run: Run) -> int:
    """What a full batch of a run takes up in a store."""
    pipeline = Pipeline.parse(PipelineSpec(transforms=run.transforms))
    return layout(pipeline.batch_tensors(run.batch_size))[1]
