"""What a transform is: a name, a version, checked parameters, and how many numbers it draws.

Transform
├── Decode            how encoded bytes become pixels                        first, implied
├── Geometric         which part of an image is seen, and at which size
├── PixelTransform    the colours of images of one size
├── Normalize         levels to floats                                       last
└── LabelTransform    the labels

All of them work on the samples of a batch at once. The numbers drawn for a sample depend on (seed,
epoch, sample, transform) alone, and `explain` says which parameters they stand for.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from ddlp.core.pipeline.views import Views

Drawn = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Pixels = npt.NDArray[np.uint8]
Size = tuple[int, int]
Parameters = dict[str, float | int | bool]


class Transform(BaseModel):
    """A named step of a pipeline; its fields are its parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    version: ClassVar[int | str] = 1
    """Part of the pipeline's hash: to be changed with every change to what the step makes."""
    draws: ClassVar[int] = 0
    """Random numbers that the step needs for each sample."""


class Geometric(Transform, ABC):
    """A transform that changes which part of an image is seen, and at which size."""

    resizes: ClassVar[bool] = False
    """Whether it may call `Views.scaled`."""
    pads: ClassVar[bool] = False
    """Whether it may leave black around what is shown."""

    @abstractmethod
    def apply(self, views: Views, drawn: Drawn) -> Views:
        """The views after this step; `drawn` holds `draws` numbers in [0, 1) for each sample."""

    def output_size(self, size: Size | None) -> Size | None:
        """(width, height) after this step where it does not depend on the image, else None."""
        return size

    def explain(self, before: Views, drawn: Drawn) -> list[Parameters]:
        """The parameters drawn, for each sample."""
        return [{} for _ in drawn]


class PixelTransform(Transform, ABC):
    """A transform that changes pixels, and not where they come from."""

    @abstractmethod
    def apply(self, pixels: Pixels, drawn: Drawn) -> Pixels:
        """The batch (samples, height, width, 3) after this step; may be changed in place."""

    def output_size(self, size: Size) -> Size:
        """(width, height) after this step."""
        return size

    def explain(self, drawn: Drawn) -> list[Parameters]:
        """The parameters drawn, for each sample."""
        return [{} for _ in drawn]


class LabelTransform(Transform, ABC):
    """A transform that changes labels."""

    @abstractmethod
    def apply(self, labels: Labels, classes: tuple[str, ...]) -> Labels:
        """The labels after this step; `classes` are the names that the labels stand for."""
