"""Named pipelines: the presets and what users added."""

import logging
import time

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, InvalidInput, NotFound
from ddlp.core.messages import PipelineCreate, PipelineInfo
from ddlp.core.pipeline import PRESETS, Pipeline, PipelineSpec
from ddlp.server.ledger import audit
from ddlp.server.models import PipelineRow

log = logging.getLogger(__name__)


def add(session: Session, body: PipelineCreate) -> PipelineInfo:
    """Check and remember a pipeline; naming the same one twice is harmless."""
    pipeline = Pipeline.parse(PipelineSpec(transforms=body.transforms))
    known = _find(session, body.name)
    if known is not None and known.spec != pipeline.spec:
        raise Conflict(f"pipeline {body.name} exists and differs; choose another name")
    if known is None:
        now = time.time()
        session.add(
            PipelineRow(
                name=body.name,
                hash=pipeline.hash,
                transforms=pipeline.spec.transforms,
                created_at=now,
            )
        )
        audit(session, "pipeline.add", body.name, now, hash=pipeline.hash)
    return info(body.name, pipeline)


def find(session: Session, name: str) -> Pipeline:
    """A pipeline by its name."""
    pipeline = _find(session, name)
    if pipeline is None:
        known = ", ".join(entry.name for entry in list_all(session))
        raise NotFound(f"there is no pipeline {name}; known: {known}")
    return pipeline


def list_all(session: Session) -> list[PipelineInfo]:
    """Presets first, then the others by name."""
    added = session.scalars(select(PipelineRow).order_by(PipelineRow.name))
    named = {name: Pipeline.preset(name) for name in PRESETS}
    for row in added:
        try:
            named[row.name] = Pipeline.parse(PipelineSpec(transforms=row.transforms))
        except InvalidInput as error:  # a package that it needs is gone, say
            log.warning("pipeline %s is left out: %s", row.name, error)
    return [info(name, pipeline) for name, pipeline in named.items()]


def info(name: str, pipeline: Pipeline) -> PipelineInfo:
    """What the outside sees of a pipeline."""
    return PipelineInfo(
        name=name,
        hash=pipeline.hash,
        transforms=pipeline.spec.transforms,
        width=pipeline.width,
        height=pipeline.height,
        shape=pipeline.shape,
        dtype=pipeline.dtype,
    )


def _find(session: Session, name: str) -> Pipeline | None:
    if name in PRESETS:
        return Pipeline.preset(name)
    row = session.get(PipelineRow, name)
    return Pipeline.parse(PipelineSpec(transforms=row.transforms)) if row else None
