"""Pipelines."""

from typing import Annotated

from fastapi import APIRouter, Query

from ddlp.core.messages import PipelineCreate, PipelineInfo
from ddlp.server import pipelines
from ddlp.server.context import SessionDep
from ddlp.server.idempotency import OnceDep
from ddlp.server.parameters import Named

router = APIRouter(prefix="/pipelines", tags=["pipelines"])


@router.post("", status_code=201)
def add(body: PipelineCreate, session: SessionDep, once: OnceDep) -> PipelineInfo:
    """Name a pipeline; doing so twice with the same content is harmless."""
    return once.answer(session, PipelineInfo, lambda: pipelines.add(session, body))[0]


@router.delete("/{name}", status_code=204)
def delete(
    name: Named,
    session: SessionDep,
    keep_runs: Annotated[bool, Query(description="Although there are runs with it.")] = False,
) -> None:
    """Delete a pipeline that was added; runs keep the transforms that they were made with."""
    pipelines.delete(session, name, keep_runs=keep_runs)


@router.get("")
def list_all(session: SessionDep) -> list[PipelineInfo]:
    """The presets and all that were added."""
    return pipelines.list_all(session)
