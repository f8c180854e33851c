"""Modelled energy: busy seconds times declared watts, where no counter can be read."""

from pydantic import BaseModel, ConfigDict, Field

from ddlp.core.types import Provenance


class PowerModel(BaseModel):
    """What a device is declared to draw; every figure made from it is `modelled`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    active_w: float = Field(ge=0, le=10_000, description="Watts one busy slot adds.")
    source: str = Field(max_length=200, description="Where the figure comes from.")

    @property
    def provenance(self) -> Provenance:
        """How figures made from this model were obtained."""
        return Provenance.MODELLED

    def joules(self, busy_s: float) -> float:
        """Energy of so many busy seconds."""
        return self.active_w * busy_s
