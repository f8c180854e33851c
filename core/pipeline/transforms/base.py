"""What a transform is: a name, a version, checked parameters, and how many numbers it draws.

Transform
├── Decode            how encoded bytes become pixels                        first, implied
├── Geometric         which part of an image is seen, and at which size
├── PixelTransform    the colours of images of one size
├── Normalize         levels to floats                                       last
├── LabelTransform    the labels
└── Extra             one more tensor beside images and labels               after geometry

All of them work on the samples of a batch at once. The numbers drawn for a sample depend on (seed,
epoch, sample, transform) alone, and `explain` says which parameters they stand for.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from ddlp.core.batchfile import Array, TensorSpec
from ddlp.core.pipeline.views import Views

if TYPE_CHECKING:
    from ddlp.core.pipeline.stages import Stage

Ints = npt.NDArray[np.int64]
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


@dataclass(frozen=True, eq=False)
class Seen:
    """What is known of the samples of a batch without a look at their pixels, as columns."""

    samples: Ints
    """Their numbers in the dataset."""
    labels: Labels
    """As the pipeline maps them."""
    widths: Ints
    """Of the whole pictures, upright as `decode` makes them."""
    heights: Ints
    views: Views
    """What the pipeline's first stage shows of each picture."""
    later: tuple[Views, ...]
    """What each further stage shows of that which the stage before it made."""
    drawn: Drawn
    """The extra's own random numbers, (samples, draws) in [0, 1)."""


class Extra(Transform, ABC):
    """A step that emits one tensor beside the images, and leaves those as they are."""

    @property
    @abstractmethod
    def tensor(self) -> TensorSpec:
        """The tensor's name, element type, and shape for one sample."""

    @abstractmethod
    def make(self, seen: Seen) -> Array:
        """The tensor for all samples of a batch, in their order: (samples, *shape)."""

    def check(self, stages: "Sequence[Stage]") -> None:
        """Raise InvalidInput where it cannot be told in a pipeline of these stages."""

    def explain(self, made: Array) -> list[Parameters]:
        """What to say of each sample to people who ask; of a single number, the number."""
        if self.tensor.shape:
            return [{} for _ in made]
        return [{self.tensor.name: value} for value in made.tolist()]
