"""DDLP's engine as a worker calls it: batch after batch into memory that is used again."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.task import Loader, Task
from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.image import engine_name
from ddlp.core.pipeline import PRESETS, Engine, Pipeline, PipelineSpec
from ddlp.core.plan import RunPlan

_SEED = 1


def prepare(task: Task) -> Loader:
    """Variant `early` normalises to float32, `late` leaves that to the accelerator.

    Behind a slash may stand a variant of the kernel that is to be used instead of the best one.
    """
    _, _, instructions = task.variant.partition("/")
    if instructions:
        from ddlp.core.image import _fused

        _fused.variant(instructions)
    index_path = Path(task.scratch) / f"{uuid.uuid4().hex}.index"
    scan(Path(task.data), index_path)
    index, pipeline = DatasetIndex(index_path), _pipeline(task)
    engine = Engine(index, pipeline, _SEED)
    plan = RunPlan(index.samples, task.batch, epochs=1_000_000, seed=_SEED)
    out = np.empty((task.batch, *pipeline.shape), dtype=pipeline.dtype)
    epoch = 0

    def batches() -> Iterator[Any]:
        nonlocal epoch
        for number in range(task.part, plan.batches, task.parts):
            engine.fill(epoch, plan.batch_samples(epoch, number), out)
            yield out
        epoch += 1

    return Loader(f"engine {engine_name()}", batches)


def _pipeline(task: Task) -> Pipeline:
    *steps, normalize = PRESETS[task.job]
    early = {"early": True} if task.variant.startswith("early") else {}
    return Pipeline.parse(PipelineSpec(transforms=[*steps, {**normalize, **early}]))
