"""Pipelines."""

from fastapi import APIRouter

from ddlp.core.messages import PipelineCreate, PipelineInfo
from ddlp.server import pipelines
from ddlp.server.context import SessionDep

router = APIRouter(prefix="/pipelines", tags=["pipelines"])


@router.post("", status_code=201)
def add(body: PipelineCreate, session: SessionDep) -> PipelineInfo:
    """Name a pipeline; doing so twice with the same content is harmless."""
    return pipelines.add(session, body)


@router.get("")
def list_all(session: SessionDep) -> list[PipelineInfo]:
    """The presets and all that were added."""
    return pipelines.list_all(session)
