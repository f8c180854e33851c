"""Named pipelines: the presets and what users added."""

import logging
import time

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, InvalidInput, NotFound
from ddlp.core.messages import PipelineCreate, PipelineInfo
from ddlp.core.pipeline import PRESETS, Pipeline, PipelineSpec
from ddlp.server import run_names
from ddlp.server.ledger import audit
from ddlp.server.models import PipelineRow, Run

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


def delete(session: Session, name: str, *, keep_runs: bool = False) -> None:
    """Delete a pipeline's name; runs have its transforms, and stay as they are."""
    if name in PRESETS:
        raise InvalidInput(f"pipeline {name} comes with DDLP and cannot be deleted")
    row = session.get(PipelineRow, name)
    if row is None:
        raise _unknown(session, name)
    users = select(Run.name).where(Run.pipeline == name).order_by(Run.created_at.desc())
    names = [] if keep_runs else [*session.scalars(users)]
    if names:
        raise Conflict(
            f"there are runs with pipeline {name}: {run_names.named(names)}; delete them first "
            "with: ddlp run delete RUN, or keep them, although they cannot be cloned then, with: "
            "--keep-runs (REST: ?keep_runs=true)"
        )
    session.delete(row)
    session.flush()
    audit(session, "pipeline.delete", name, time.time(), hash=row.hash)


def find(session: Session, name: str) -> Pipeline:
    """A pipeline by its name."""
    pipeline = _find(session, name)
    if pipeline is None:
        raise _unknown(session, name)
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


def _unknown(session: Session, name: str) -> NotFound:
    known = ", ".join(entry.name for entry in list_all(session))
    return NotFound(f"there is no pipeline {name}; known: {known}")


def _find(session: Session, name: str) -> Pipeline | None:
    if name in PRESETS:
        return Pipeline.preset(name)
    row = session.get(PipelineRow, name)
    return Pipeline.parse(PipelineSpec(transforms=row.transforms)) if row else None
