"""Clears batches that nobody will read out of the stores that this machine can see."""

import uuid
from collections.abc import Sequence
from pathlib import Path

from ddlp.core.schedule import EpochSchedule, Void
from ddlp.core.store import RUN_PREFIX, BatchStore, release
from ddlp.server.board import Board


def remove_batches(epoch: EpochSchedule) -> None:
    """Give back what an abandoned epoch left."""
    for batch in epoch.under_way:
        if batch.location:
            release(Path(batch.location))


def discard(board: Board, run_id: uuid.UUID, void: Sequence[Void]) -> None:
    """Forget what attempts left that count no more."""
    for attempt in void:
        device = board.devices.get(attempt.device)
        if device is not None and Path(device.store).is_dir():
            BatchStore(Path(device.store)).discard(
                run_id, attempt.epoch, attempt.index, attempt.token
            )


def remove_run(board: Board, run_id: uuid.UUID) -> None:
    """Forget a run that is over."""
    for store in _stores(board):
        store.remove_run(run_id)


def sweep(board: Board, over: Sequence[uuid.UUID]) -> None:
    """Forget what a crash left of runs that are over; what is not known is left alone."""
    for store in _stores(board):
        there = {folder.name for folder in store.root.glob(f"{RUN_PREFIX}*")}
        for run_id in over:
            if f"{RUN_PREFIX}{run_id}" in there:
                store.remove_run(run_id)


def _stores(board: Board) -> list[BatchStore]:
    roots = {device.store for device in board.devices.values()}
    return [BatchStore(Path(root)) for root in sorted(roots) if Path(root).is_dir()]
