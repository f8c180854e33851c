"""Places on the server where datasets may lie, while somebody types one."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from ddlp.core.messages.statistics import PlacesInfo
from ddlp.server import places, roots
from ddlp.server.context import ContextDep
from ddlp.server.security import refuse_cross_site

router = APIRouter(prefix="/places", tags=["datasets"])

Prefix = Annotated[str, Query(max_length=4096, description="A path, or how one begins.")]


@router.get("", dependencies=[Depends(refuse_cross_site)])
def look(context: ContextDep, prefix: Prefix = "") -> PlacesInfo:
    """What lies at a path, and how it could go on; only below allowed folders."""
    with context.database.session() as session:  # which is let go before disks are looked at
        folders = roots.allowed(session, context.settings)
    return places.look(folders, prefix)
