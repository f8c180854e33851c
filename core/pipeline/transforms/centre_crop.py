"""Cuts a square out of the middle."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from ddlp.core.pipeline.transforms.base import Drawn, Geometric, Size
from ddlp.core.pipeline.views import Ints, Views


def _half(length: Ints) -> Ints:
    """Rounded to the even number where it is in between, as torchvision does."""
    return np.rint(length / 2).astype(np.int64)


class CentreCrop(Geometric):
    """The middle `size` × `size` pixels; an image that is smaller is enlarged to them."""

    name: ClassVar[str] = "centre-crop"
    resizes: ClassVar[bool] = True

    size: int = Field(ge=1, le=8192, description="Side of the square in pixels.")

    def apply(self, views: Views, drawn: Drawn) -> Views:
        """Crop around the middle, at whole pixels of what is seen now."""
        side = np.minimum(np.minimum(views.frame_width, views.frame_height), self.size)
        left, top = _half(views.frame_width - side), _half(views.frame_height - side)
        return views.crop(left, top, side, side).scaled(self.size, self.size)

    def output_size(self, size: Size | None) -> Size | None:
        """Always the square."""
        return self.size, self.size
