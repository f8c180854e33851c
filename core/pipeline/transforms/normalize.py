"""Scales pixel values to floats; done late, by the loader on the accelerator."""

from typing import Annotated, ClassVar

from pydantic import Field

from ddlp.core.pipeline.transforms.base import Transform

Channel = Annotated[float, Field(ge=-1e6, le=1e6)]
Positive = Annotated[float, Field(gt=0, le=1e6)]


class Normalize(Transform):
    """(value / 255 - mean) / std, a channel."""

    name: ClassVar[str] = "normalize"

    mean: tuple[Channel, Channel, Channel] = (0.485, 0.456, 0.406)
    std: tuple[Positive, Positive, Positive] = (0.229, 0.224, 0.225)
