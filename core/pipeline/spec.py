"""A pipeline's description: how it is written, checked, named and hashed."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ddlp.core.batchfile import TensorSpec, batch_tensors
from ddlp.core.errors import InvalidInput
from ddlp.core.image.arithmetic import ARITHMETIC
from ddlp.core.pipeline.entry_points import find_transform, origin
from ddlp.core.pipeline.extras import checked
from ddlp.core.pipeline.presets import PRESETS
from ddlp.core.pipeline.stages import Stage, split
from ddlp.core.pipeline.transforms import (
    Decode,
    Extra,
    Geometric,
    LabelMap,
    Normalize,
    PixelTransform,
    Transform,
)

Step = TypeVar("Step", bound=Transform)


class PipelineSpec(BaseModel):
    """A pipeline as it stands in JSON: named transforms with their parameters, in order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    transforms: list[dict[str, Any]] = Field(min_length=1, max_length=32)


@dataclass(frozen=True)
class Pipeline:
    """A checked pipeline: how to decode, what to do with the pixels, and the shape of the output.

    `width` and `height` are those of the output, known before any image is.
    """

    decode: Decode
    stages: tuple[Stage, ...]
    normalize: Normalize | None
    label_map: LabelMap | None
    width: int
    height: int
    extra_steps: tuple[Extra, ...] = ()

    @classmethod
    def preset(cls, name: str) -> "Pipeline":
        """A pipeline by its preset's name."""
        if name not in PRESETS:
            known = ", ".join(sorted(PRESETS))
            raise InvalidInput(f"there is no pipeline {name!r}; known presets: {known}")
        return cls.parse(PipelineSpec(transforms=PRESETS[name]))

    @classmethod
    def parse(cls, spec: PipelineSpec) -> "Pipeline":
        """Check a description and make it runnable."""
        everything = [_transform(position, raw) for position, raw in enumerate(spec.transforms)]
        label_map = _only([step for step in everything if isinstance(step, LabelMap)])
        transforms = [step for step in everything if not isinstance(step, (LabelMap, Extra))]
        decode = _only([step for step in transforms[:1] if isinstance(step, Decode)])
        normalize = _only([step for step in transforms[-1:] if isinstance(step, Normalize)])
        between = [step for step in transforms if step is not decode and step is not normalize]
        stages, (width, height) = split(_steps(between))
        extras = checked(everything, stages)
        return cls(decode or Decode(), stages, normalize, label_map, width, height, extras)

    @property
    def draws(self) -> bool:
        """Whether anything in it is random: otherwise an image comes out the same each time."""
        return any(step.draws for step in (*self.steps, *self.extra_steps))

    @property
    def steps(self) -> tuple[Geometric | PixelTransform, ...]:
        """The steps of all stages in order; a step's place here is part of its random key."""
        return tuple(step for stage in self.stages for step in stage.steps)

    @property
    def places(self) -> tuple[str, ...]:
        """For each of the steps what keeps its random numbers apart: its place and its name."""
        return tuple(f"{place}:{step.name}" for place, step in enumerate(self.steps))

    @property
    def dtype(self) -> str:
        """What batches are made of: levels, or floats where workers normalise."""
        return "float32" if self.normalize and self.normalize.early else "uint8"

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of a sample."""
        return self.height, self.width, 3

    @property
    def extras(self) -> tuple[TensorSpec, ...]:
        """The tensors beside images, labels and samples; a shape is that of one sample."""
        return tuple(step.tensor for step in self.extra_steps)

    def batch_tensors(self, samples: int) -> list[TensorSpec]:
        """All tensors of a batch of so many samples."""
        return batch_tensors(samples, self.shape, self.dtype, self.extras)

    @property
    def spec(self) -> PipelineSpec:
        """The description with every default written out."""
        last = [step for step in (self.normalize, self.label_map) if step is not None]
        return PipelineSpec(
            transforms=[
                {"name": step.name, **step.model_dump(mode="json")}
                for step in (self.decode, *self.steps, *self.extra_steps, *last)
            ]
        )

    @property
    def hash(self) -> str:
        """Names the bytes this pipeline makes: parameters and versions of all that workers do."""
        early = [self.normalize] if self.normalize and self.normalize.early else []
        labels = [self.label_map] if self.label_map else []
        parts = [
            [step.name, step.version, step.model_dump(mode="json"), *origin(step.name)]
            for step in (self.decode, *self.steps, *early, *labels, *self.extra_steps)
        ]
        text = json.dumps([ARITHMETIC, parts], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _transform(position: int, raw: dict[str, Any]) -> Transform:
    name = raw.get("name")
    try:
        kind = find_transform(name)
    except InvalidInput as error:
        raise InvalidInput(f"transform {position}: {error}") from error
    try:
        return kind.model_validate({key: value for key, value in raw.items() if key != "name"})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "its parameters"
        raise InvalidInput(f"transform {position} ({name}): {field}: {first['msg']}") from error


def _only(found: list[Step]) -> Step | None:
    if len(found) > 1:
        raise InvalidInput(f"{found[0].name} must stand in a pipeline only once")
    return found[0] if found else None


def _steps(transforms: list[Transform]) -> list[Geometric | PixelTransform]:
    """What is left between decode and normalize."""
    steps: list[Geometric | PixelTransform] = []
    for step in transforms:
        if isinstance(step, Decode):
            raise InvalidInput("decode must come first in a pipeline, and only once")
        if not isinstance(step, (Geometric, PixelTransform)):
            raise InvalidInput(f"{step.name} must come last in a pipeline, and only once")
        steps.append(step)
    return steps
