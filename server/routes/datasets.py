"""Datasets."""

from fastapi import APIRouter
from sqlalchemy import select

from ddlp.core.messages import DatasetCreate, DatasetInfo
from ddlp.server import datasets
from ddlp.server.context import ContextDep, SessionDep
from ddlp.server.models import Dataset

router = APIRouter(prefix="/datasets", tags=["datasets"])


@router.post("", status_code=201)
def register(body: DatasetCreate, session: SessionDep, context: ContextDep) -> DatasetInfo:
    """Register a folder of images, one subfolder a class."""
    return datasets.info(datasets.register(session, context.settings, body))


@router.get("")
def list_all(session: SessionDep) -> list[DatasetInfo]:
    """All datasets, by name."""
    return [datasets.info(row) for row in session.scalars(select(Dataset).order_by(Dataset.name))]


@router.get("/{name}")
def show(name: str, session: SessionDep) -> DatasetInfo:
    """One dataset."""
    return datasets.info(datasets.find(session, name))
