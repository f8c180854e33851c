"""What workers that pack a dataset ask and report: shard by shard."""

import uuid

from fastapi import APIRouter
from fastapi.responses import FileResponse

from ddlp.core.messages import (
    PackSpec,
    ShardClaim,
    ShardGranted,
    ShardNews,
    ShardReport,
    ShardWanted,
)
from ddlp.server.context import ContextDep

router = APIRouter(prefix="/packings", tags=["packings"])


@router.get("/{packing}")
def spec(packing: uuid.UUID, context: ContextDep) -> PackSpec:
    """What a worker must know to write any shard of a dataset that is being packed."""
    return context.packer.spec(packing)


@router.get("/{packing}/index", response_class=FileResponse)
def index(packing: uuid.UUID, context: ContextDep) -> FileResponse:
    """The index of its origin, for workers that do not see the server's folder."""
    return FileResponse(context.packer.spec(packing).index_path)


@router.post("/{packing}/claim")
def claim(packing: uuid.UUID, body: ShardClaim, context: ContextDep) -> ShardGranted:
    """Start on a shard, unless it is there already or somebody is at it."""
    return context.packer.claim(packing, body)


@router.post("/{packing}/news")
def news(packing: uuid.UUID, body: ShardNews, context: ContextDep) -> ShardWanted:
    """Say that a shard is being worked on; the answer says whether to go on."""
    return context.packer.hear(packing, body)


@router.post("/{packing}/report")
def report(packing: uuid.UUID, body: ShardReport, context: ContextDep) -> None:
    """Say that a shard is there, or why it is not."""
    context.packer.report(packing, body)
