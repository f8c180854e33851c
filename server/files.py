"""Clears batches that nobody will read out of the stores that this machine can see."""

import uuid
from pathlib import Path

from ddlp.core.schedule import EpochSchedule
from ddlp.core.store import BatchStore, release
from ddlp.server.board import Board


def remove_batches(epoch: EpochSchedule) -> None:
    """Give back what an abandoned epoch left."""
    for batch in epoch.under_way:
        if batch.location:
            release(Path(batch.location))


def remove_run(board: Board, run_id: uuid.UUID) -> None:
    """Forget a run that is over."""
    for store in _stores(board):
        store.remove_run(run_id)


def sweep(board: Board) -> None:
    """Forget what a crash left of runs that are over or unknown."""
    for store in _stores(board):
        for folder in store.root.iterdir():
            run_id = _run_id(folder)
            if run_id is not None and run_id not in board.runs:
                store.remove_run(run_id)


def _stores(board: Board) -> list[BatchStore]:
    roots = {device.store for device in board.devices.values()}
    return [BatchStore(Path(root)) for root in sorted(roots) if Path(root).is_dir()]


def _run_id(folder: Path) -> uuid.UUID | None:
    try:
        return uuid.UUID(folder.name)
    except ValueError:
        return None
