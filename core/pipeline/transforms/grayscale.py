"""Takes the colour out of images with a probability."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from ddlp.core.pipeline.transforms.base import Drawn, Parameters, Pixels, PixelTransform
from ddlp.core.pipeline.transforms.colour import luma, planes_of


class Grayscale(PixelTransform):
    """Grey levels, the same in all three channels."""

    name: ClassVar[str] = "grayscale"
    draws: ClassVar[int] = 1

    p: float = Field(1.0, ge=0, le=1, description="Probability of turning grey.")

    def apply(self, pixels: Pixels, drawn: Drawn) -> Pixels:
        """Turn those grey, in place, for which the number drawn is below p."""
        for place in np.flatnonzero(drawn[:, 0] < self.p):
            image = pixels[place]
            grey = luma(planes_of(image)).astype(np.uint8)
            image[:] = grey.reshape(*image.shape[:2], 1)
        return pixels

    def explain(self, drawn: Drawn) -> list[Parameters]:
        """Whether each turns grey."""
        return [{"grey": flag} for flag in (drawn[:, 0] < self.p).tolist()]
