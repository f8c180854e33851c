"""A pipeline's description: how it is written, checked, named and hashed."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline.transforms import TRANSFORMS, Geometric, Normalize, Transform

PRESETS: dict[str, list[dict[str, Any]]] = {
    "imagenet-train": [
        {"name": "random-resized-crop", "size": 224},
        {"name": "flip"},
        {"name": "normalize"},
    ],
    "imagenet-val": [
        {"name": "resize", "size": 256},
        {"name": "centre-crop", "size": 224},
        {"name": "normalize"},
    ],
}


class PipelineSpec(BaseModel):
    """A pipeline as it stands in JSON: named transforms with their parameters, in order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    transforms: list[dict[str, Any]] = Field(min_length=1, max_length=32)


@dataclass(frozen=True)
class Pipeline:
    """A checked pipeline: geometry first, normalising last, the output's shape known beforehand."""

    steps: tuple[Geometric, ...]
    normalize: Normalize | None
    width: int
    height: int

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
        transforms = [_transform(position, raw) for position, raw in enumerate(spec.transforms)]
        last = transforms[-1]
        normalize = last if isinstance(last, Normalize) else None
        geometry = transforms[:-1] if normalize else transforms
        size: tuple[int, int] | None = None
        steps: list[Geometric] = []
        for step in geometry:
            if not isinstance(step, Geometric):
                raise InvalidInput(f"{step.name} must come last in a pipeline, and only once")
            size = step.output_size(size)
            steps.append(step)
        if size is None:
            raise InvalidInput(
                "the pipeline does not say how large its output is; end it with centre-crop or "
                "random-resized-crop"
            )
        return cls(tuple(steps), normalize, *size)

    @property
    def spec(self) -> PipelineSpec:
        """The description with every default written out."""
        transforms: list[Transform] = [*self.steps, *([self.normalize] if self.normalize else [])]
        return PipelineSpec(
            transforms=[{"name": t.name, **t.model_dump(mode="json")} for t in transforms]
        )

    @property
    def hash(self) -> str:
        """Names the bytes this pipeline makes: parameters and versions of what is done early."""
        parts = [[step.name, step.version, step.model_dump(mode="json")] for step in self.steps]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _transform(position: int, raw: dict[str, Any]) -> Transform:
    name = raw.get("name")
    kind = TRANSFORMS.get(name) if isinstance(name, str) else None
    if kind is None:
        known = ", ".join(sorted(TRANSFORMS))
        raise InvalidInput(f"transform {position} is {name!r}; known transforms: {known}")
    try:
        return kind.model_validate({key: value for key, value in raw.items() if key != "name"})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "its parameters"
        raise InvalidInput(f"transform {position} ({name}): {field}: {first['msg']}") from error
