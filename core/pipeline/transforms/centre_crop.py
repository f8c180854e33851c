"""Cuts a square out of the middle."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from ddlp.core.pipeline.transforms.base import Geometric
from ddlp.core.pipeline.view import View


class CentreCrop(Geometric):
    """The middle `size` × `size` pixels; an image that is smaller is enlarged first."""

    name: ClassVar[str] = "centre-crop"

    size: int = Field(ge=1, le=8192, description="Side of the square in pixels.")

    def apply(self, view: View, drawn: Sequence[float]) -> View:
        """Crop around the middle, at whole pixels of what is seen now."""
        side = min(self.size, view.width, view.height)
        left, top = (view.width - side) // 2, (view.height - side) // 2
        return view.crop(left, top, side, side).scaled(self.size, self.size)

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Always the square."""
        return self.size, self.size
