"""Scales levels to floats: late, by the loader on the accelerator, or early, by the workers."""

from typing import Annotated, ClassVar

from pydantic import Field

from ddlp.core.pipeline.transforms.base import Transform

Channel = Annotated[float, Field(ge=-1e6, le=1e6)]
Positive = Annotated[float, Field(gt=0, le=1e6)]


class Normalize(Transform):
    """(level / 255 - mean) / std, a channel."""

    name: ClassVar[str] = "normalize"

    mean: tuple[Channel, Channel, Channel] = Field(
        (0.485, 0.456, 0.406), description="Mean of each channel, of levels scaled to 0..1."
    )
    std: tuple[Positive, Positive, Positive] = Field(
        (0.229, 0.224, 0.225), description="Standard deviation of each channel, likewise."
    )
    early: bool = Field(
        False, description="Let the workers write float32 batches, four times as large."
    )
