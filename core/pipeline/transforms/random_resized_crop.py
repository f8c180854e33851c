"""Cuts a random rectangle of random area and aspect ratio and resizes it to a square."""

import math
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field, model_validator

from ddlp.core.pipeline.transforms.base import Geometric
from ddlp.core.pipeline.view import View

_ATTEMPTS = 10


def portable_exp(x: float) -> float:
    """e^x for |x| ≤ 2 from additions and multiplications alone: the same bits on every machine."""
    total = 1.0
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

    def apply(self, view: View, drawn: Sequence[float]) -> View:
        """The first attempt that fits, else the largest allowed rectangle in the middle."""
        area = view.width * view.height
        log_stretch = portable_log(self.max_stretch)
        for start in range(0, self.draws, 4):
            u_area, u_ratio, u_left, u_top = drawn[start : start + 4]
            target = area * (self.min_area + (self.max_area - self.min_area) * u_area)
            ratio = portable_exp((2 * u_ratio - 1) * log_stretch)
            width, height = round(math.sqrt(target * ratio)), round(math.sqrt(target / ratio))
            if 0 < width <= view.width and 0 < height <= view.height:
                left = int(u_left * (view.width - width + 1))
                top = int(u_top * (view.height - height + 1))
                return view.crop(left, top, width, height).scaled(self.size, self.size)
        return self._middle(view)

    def _middle(self, view: View) -> View:
        width = max(1, min(view.width, round(view.height * self.max_stretch)))
        height = max(1, min(view.height, round(view.width * self.max_stretch)))
        left, top = (view.width - width) // 2, (view.height - height) // 2
        return view.crop(left, top, width, height).scaled(self.size, self.size)

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Always the square."""
        return self.size, self.size
