"""Cuts a random rectangle of random area and aspect ratio and resizes it to a square."""

from typing import ClassVar

import numpy as np
from pydantic import Field, model_validator

from ddlp.core.pipeline.transforms.base import Drawn, Geometric, Parameters, Size
from ddlp.core.pipeline.views import Floats, Ints, Views

_ATTEMPTS = 10


def portable_exp(x: Floats) -> Floats:
    """e^x for |x| ≤ 2 from additions and multiplications alone: the same bits on every machine."""
    total = np.ones_like(x)
    for k in range(24, 0, -1):
        total = 1.0 + total * x / k
    return total


def portable_log(x: float) -> float:
    """Natural logarithm for 1 ≤ x ≤ 4 (the series of 2·artanh), as portable as `portable_exp`."""
    z = (x - 1) / (x + 1)
    total = 0.0
    for k in range(81, 0, -2):
        total = 1.0 / k + total * z * z
    return 2 * z * total


class RandomResizedCrop(Geometric):
    """The crop of the usual ImageNet recipe: area and log aspect ratio uniform, ten attempts."""

    name: ClassVar[str] = "random-resized-crop"
    draws: ClassVar[int] = 4 * _ATTEMPTS
    resizes: ClassVar[bool] = True

    size: int = Field(ge=1, le=8192, description="Side of the output square in pixels.")
    min_area: float = Field(0.08, gt=0, le=1, description="Smallest share of the area.")
    max_area: float = Field(1.0, gt=0, le=1, description="Largest share of the area.")
    max_stretch: float = Field(
        4 / 3, ge=1, le=4, description="Aspect ratio at the most, either way."
    )

    @model_validator(mode="after")
    def _areas_in_order(self) -> "RandomResizedCrop":
        if self.min_area > self.max_area:
            raise ValueError("min_area must not exceed max_area")
        return self

    def apply(self, views: Views, drawn: Drawn) -> Views:
        """The first attempt that fits, else the largest allowed rectangle in the middle."""
        return views.crop(*self._box(views, drawn)).scaled(self.size, self.size)

    def output_size(self, size: Size | None) -> Size | None:
        """Always the square."""
        return self.size, self.size

    def explain(self, before: Views, drawn: Drawn) -> list[Parameters]:
        """The rectangle that is cut out of what is seen before."""
        columns = (side.tolist() for side in self._box(before, drawn))
        names = ("left", "top", "width", "height")
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _box(self, views: Views, drawn: Drawn) -> tuple[Ints, Ints, Ints, Ints]:
        """Left, top, width and height; all ten attempts are computed, the first fit is taken."""
        across, down = views.frame_width[:, None], views.frame_height[:, None]
        u_area, u_ratio, u_left, u_top = np.moveaxis(drawn.reshape(len(drawn), _ATTEMPTS, 4), 2, 0)
        target = across * down * (self.min_area + (self.max_area - self.min_area) * u_area)
        ratio = portable_exp((2 * u_ratio - 1) * portable_log(self.max_stretch))
        width = np.rint(np.sqrt(target * ratio)).astype(np.int64)
        height = np.rint(np.sqrt(target / ratio)).astype(np.int64)
        fits = (width > 0) & (width <= across) & (height > 0) & (height <= down)
        left = np.floor(u_left * (across - width + 1)).astype(np.int64)
        top = np.floor(u_top * (down - height + 1)).astype(np.int64)
        taken = np.arange(len(fits)), fits.argmax(axis=1)
        attempt = left[taken], top[taken], width[taken], height[taken]
        middle = self._middle(views)
        left, top, width, height = np.where(fits[taken], attempt, middle)
        return left, top, width, height

    def _middle(self, views: Views) -> tuple[Ints, Ints, Ints, Ints]:
        across, down = views.frame_width, views.frame_height
        width = np.rint(down * self.max_stretch).astype(np.int64).clip(1, across)
        height = np.rint(across * self.max_stretch).astype(np.int64).clip(1, down)
        return (across - width) // 2, (down - height) // 2, width, height
