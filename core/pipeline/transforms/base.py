"""What a transform is: a name, a version, checked parameters, and how many numbers it draws."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from ddlp.core.pipeline.view import View


class Transform(BaseModel):
    """A named step of a pipeline; its fields are its parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    version: ClassVar[int] = 1
    draws: ClassVar[int] = 0


class Geometric(Transform, ABC):
    """A transform that changes which part of the image is seen, and at which size."""

    @abstractmethod
    def apply(self, view: View, drawn: Sequence[float]) -> View:
        """The view after this step; `drawn` holds `draws` numbers in [0, 1)."""

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """(width, height) after this step where it does not depend on the image, else None."""
        return size
