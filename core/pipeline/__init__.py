"""Pipelines: ordered transforms, by preset name or JSON, and the engine that runs them."""

from ddlp.core.batchfile import TensorSpec
from ddlp.core.pipeline.engine import ENGINE, Engine, kept
from ddlp.core.pipeline.presets import PRESETS
from ddlp.core.pipeline.spec import Pipeline, PipelineSpec
from ddlp.core.pipeline.stages import Stage
from ddlp.core.pipeline.transforms import (
    TRANSFORMS,
    Extra,
    Geometric,
    LabelTransform,
    PixelTransform,
    Seen,
    Transform,
)
from ddlp.core.pipeline.views import Views

__all__ = [
    "ENGINE",
    "PRESETS",
    "TRANSFORMS",
    "Engine",
    "Extra",
    "Geometric",
    "LabelTransform",
    "Pipeline",
    "PipelineSpec",
    "PixelTransform",
    "Seen",
    "Stage",
    "TensorSpec",
    "Transform",
    "Views",
    "kept",
]
