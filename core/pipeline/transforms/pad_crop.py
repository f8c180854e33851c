"""Adds a black border and cuts a square out at a random place."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from ddlp.core.pipeline.transforms.base import Drawn, Geometric, Parameters, Size
from ddlp.core.pipeline.views import Ints, Views


class PadCrop(Geometric):
    """The crop of the usual CIFAR recipe.

    An image that is smaller than the square, border included, lies whole at a random place of it.
    """

    name: ClassVar[str] = "pad-crop"
    draws: ClassVar[int] = 2
    pads: ClassVar[bool] = True

    size: int = Field(ge=1, le=8192, description="Side of the square in pixels.")
    padding: int = Field(4, ge=0, le=8192, description="Black border on every side in pixels.")

    def apply(self, views: Views, drawn: Drawn) -> Views:
        """Pad, then cut where the numbers drawn say."""
        left, top = self._corner(views, drawn)
        return views.padded(self.padding).crop(left, top, self.size, self.size)

    def output_size(self, size: Size | None) -> Size | None:
        """Always the square."""
        return self.size, self.size

    def explain(self, before: Views, drawn: Drawn) -> list[Parameters]:
        """The square's corner in the padded image."""
        left, top = (place.tolist() for place in self._corner(before, drawn))
        return [{"left": x, "top": y} for x, y in zip(left, top, strict=True)]

    def _corner(self, views: Views, drawn: Drawn) -> tuple[Ints, Ints]:
        left = _place(views.frame_width + 2 * self.padding - self.size, drawn[:, 0])
        top = _place(views.frame_height + 2 * self.padding - self.size, drawn[:, 1])
        return left, top


def _place(room: Ints, drawn: Drawn) -> Ints:
    """A whole number between 0 and the room, both included; the room may be negative."""
    steps: Ints = np.floor(drawn * (np.abs(room) + 1)).astype(np.int64)
    return np.where(room < 0, -steps, steps)
