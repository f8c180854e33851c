"""Changes brightness, contrast, saturation and hue at random, in a random order."""

from collections.abc import Callable
from itertools import permutations
from typing import ClassVar

import numpy as np
from pydantic import Field

from ddlp.core.pipeline.transforms.base import Drawn, Parameters, Pixels, PixelTransform
from ddlp.core.pipeline.transforms.colour import (
    Planes,
    brighten,
    contrast,
    planes_of,
    put_planes,
    saturate,
)
from ddlp.core.pipeline.transforms.hue import turn

_NAMES = ("brightness", "contrast", "saturation", "hue")
_ORDERS = list(permutations(range(len(_NAMES))))


def _turn(planes: Planes, factor: float) -> None:
    turn(planes, int(factor * 255))


_CHANGES: tuple[Callable[[Planes, float], None], ...] = (brighten, contrast, saturate, _turn)


class ColourJitter(PixelTransform):
    """The colour jitter of the usual recipes.

    A factor of brightness, contrast or saturation is uniform within 1 ± the parameter, and not
    below 0; a turn of the hue is uniform within ± the parameter. What is 0 is left out.
    """

    name: ClassVar[str] = "colour-jitter"
    draws: ClassVar[int] = 5

    brightness: float = Field(0.0, ge=0, le=10, description="Reach of the factor of brightness.")
    contrast: float = Field(0.0, ge=0, le=10, description="Reach of the factor of contrast.")
    saturation: float = Field(0.0, ge=0, le=10, description="Reach of the factor of saturation.")
    hue: float = Field(
        0.0, ge=0, le=0.5, description="Reach of the turn of the hue, of the whole circle."
    )

    def apply(self, pixels: Pixels, drawn: Drawn) -> Pixels:
        """Change image after image in place: each stays in the processor's cache meanwhile."""
        active = [reach > 0 for reach in self._reaches]
        if not any(active):
            return pixels
        factors, orders = self._factors(drawn).tolist(), self._orders(drawn)
        for image, chosen, order in zip(pixels, factors, orders, strict=True):
            planes = planes_of(image)
            for place in order:
                if active[place]:
                    _CHANGES[place](planes, chosen[place])
            put_planes(planes, image)
        return pixels

    def explain(self, drawn: Drawn) -> list[Parameters]:
        """The factors (1, and 0 for the hue, change nothing), and each one's turn in the order."""
        rows = zip(self._factors(drawn).tolist(), self._orders(drawn), strict=True)
        return [
            {
                **dict(zip(_NAMES, factors, strict=True)),
                **{f"{name}_turn": order.index(place) for place, name in enumerate(_NAMES)},
            }
            for factors, order in rows
        ]

    @property
    def _reaches(self) -> tuple[float, float, float, float]:
        return self.brightness, self.contrast, self.saturation, self.hue

    def _factors(self, drawn: Drawn) -> Drawn:
        *reaches, hue = self._reaches
        low = np.asarray([*(max(0.0, 1 - reach) for reach in reaches), -hue])
        high = np.asarray([*(1 + reach for reach in reaches), hue])
        factors: Drawn = low + (high - low) * drawn[:, :4]
        return factors

    def _orders(self, drawn: Drawn) -> list[tuple[int, ...]]:
        chosen = np.floor(drawn[:, 4] * len(_ORDERS)).astype(np.int64)
        return [_ORDERS[place] for place in chosen.tolist()]
