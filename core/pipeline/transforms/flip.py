"""Mirrors an image left to right with a probability."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from ddlp.core.pipeline.transforms.base import Geometric
from ddlp.core.pipeline.view import View


class Flip(Geometric):
    """Horizontal flip."""

    name: ClassVar[str] = "flip"
    draws: ClassVar[int] = 1

    p: float = Field(0.5, ge=0, le=1, description="Probability of mirroring.")

    def apply(self, view: View, drawn: Sequence[float]) -> View:
        """Mirror when the number drawn is below p."""
        return replace(view, mirrored=not view.mirrored) if drawn[0] < self.p else view
