"""The folders below which datasets may be read."""

from typing import Annotated

from fastapi import APIRouter, Query

from ddlp.core.messages.roots import RootAdded, RootCreate, RootInfo, RootRemoved
from ddlp.server import roots
from ddlp.server.context import ContextDep, SessionDep
from ddlp.server.idempotency import OnceDep

router = APIRouter(prefix="/roots", tags=["datasets"])

FolderPath = Annotated[
    str, Query(min_length=1, max_length=4096, description="Folder that was added.")
]


@router.get("")
def list_all(session: SessionDep, context: ContextDep) -> list[RootInfo]:
    """All allowed folders: those of the settings, then those that were added."""
    return roots.list_all(session, context.settings)


@router.post("", status_code=201)
def add(body: RootCreate, session: SessionDep, context: ContextDep, once: OnceDep) -> RootAdded:
    """Allow a folder from now on, over restarts too; doing so twice is harmless."""
    return once.answer(session, RootAdded, lambda: roots.add(session, context.settings, body))[0]


@router.delete("")
def remove(path: FolderPath, session: SessionDep, context: ContextDep) -> RootRemoved:
    """Allow a folder no longer; datasets below it stay registered, and runs go on."""
    return roots.remove(session, context.settings, path)
