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
        return view.scaled(*self._scaled(view.width, view.height))

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """The long side depends on the image, unless its size is known before."""
        return self._scaled(*size) if size else None

    def _scaled(self, width: int, height: int) -> tuple[int, int]:
        if width <= height:
            return self.size, max(1, height * self.size // width)
        return max(1, width * self.size // height), self.size
