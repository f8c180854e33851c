"""Mirrors images left to right with a probability."""

from typing import ClassVar

from pydantic import Field

from ddlp.core.pipeline.transforms.base import Drawn, Geometric, Parameters
from ddlp.core.pipeline.views import Views


class Flip(Geometric):
    """Horizontal flip."""

    name: ClassVar[str] = "flip"
    draws: ClassVar[int] = 1

    p: float = Field(0.5, ge=0, le=1, description="Probability of mirroring.")

    def apply(self, views: Views, drawn: Drawn) -> Views:
        """Mirror where the number drawn is below p."""
        return views.mirror(drawn[:, 0] < self.p)

    def explain(self, before: Views, drawn: Drawn) -> list[Parameters]:
        """Whether each is mirrored by this step."""
        return [{"mirrored": flag} for flag in (drawn[:, 0] < self.p).tolist()]
