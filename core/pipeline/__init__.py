"""Pipelines: ordered transforms, by preset name or JSON, and the engine that runs them."""

from ddlp.core.pipeline.engine import ENGINE, Engine
from ddlp.core.pipeline.spec import PRESETS, Pipeline, PipelineSpec

__all__ = ["ENGINE", "PRESETS", "Engine", "Pipeline", "PipelineSpec"]
