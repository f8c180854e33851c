"""Resizes so that the short side has a given length."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from ddlp.core.pipeline.transforms.base import Geometric
from ddlp.core.pipeline.view import View


class Resize(Geometric):
    """Short side to `size`, the aspect ratio kept."""

    name: ClassVar[str] = "resize"

    size: int = Field(ge=1, le=8192, description="Length of the short side in pixels.")

    def apply(self, view: View, drawn: Sequence[float]) -> View:
        """Scale both sides by the same factor, the long one rounded down."""
        if view.width <= view.height:
            return view.scaled(self.size, max(1, view.height * self.size // view.width))
        return view.scaled(max(1, view.width * self.size // view.height), self.size)

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """The long side depends on the image."""
        return None
