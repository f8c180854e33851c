"""Resizes so that the short side has a given length."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from ddlp.core.pipeline.transforms.base import Drawn, Geometric, Size
from ddlp.core.pipeline.views import Ints, Views


class Resize(Geometric):
    """Short side to `size`, the aspect ratio kept."""

    name: ClassVar[str] = "resize"
    resizes: ClassVar[bool] = True

    size: int = Field(ge=1, le=8192, description="Length of the short side in pixels.")

    def apply(self, views: Views, drawn: Drawn) -> Views:
        """Scale both sides by the same factor, the long one rounded down."""
        return views.scaled(*self._scaled(views.frame_width, views.frame_height))

    def output_size(self, size: Size | None) -> Size | None:
        """The long side depends on the image, unless its size is known before."""
        if size is None:
            return None
        width, height = self._scaled(np.asarray(size[0]), np.asarray(size[1]))
        return int(width), int(height)

    def _scaled(self, width: Ints, height: Ints) -> tuple[Ints, Ints]:
        short = np.minimum(width, height)
        return width * self.size // short, height * self.size // short
