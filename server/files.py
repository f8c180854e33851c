"""Clears batches that nobody will read out of the stores: here, or by telling their devices."""

import logging
import socket
import uuid
from collections.abc import Sequence
from pathlib import Path

from ddlp.core.errors import DdlpError
from ddlp.core.messages import Attempt
from ddlp.core.schedule import EpochSchedule, Void
from ddlp.core.store import RUN_PREFIX, FolderStore, batch_name, run_folder
from ddlp.server.board import Board, LiveDevice

log = logging.getLogger(__name__)

_MOST_TOLD = 10_000
"""Attempts that a device is told of at once; the end of their run clears away the rest."""


def remove_batches(board: Board, run_id: uuid.UUID, epoch: EpochSchedule) -> None:
    """Forget what an abandoned epoch left; a trainer may still hold a tensor over a file."""
    left = [batch for batch in epoch.under_way if batch.location and batch.device]
    void = [Void(str(b.device), b.epoch, b.index, b.token) for b in left]
    discard(board, run_id, void)


def discard(board: Board, run_id: uuid.UUID, void: Sequence[Void]) -> None:
    """Forget what attempts left that count no more: here, and by telling devices out of reach."""
    for attempt in void:
        device = board.devices.get(attempt.device)
        if device is None:
            continue
        key = attempt.epoch, attempt.index, attempt.token
        done = device.folder is not None and _discard_here(device.folder, run_id, key)
        if not done or device.host != socket.gethostname():
            _tell(device, run_id, key)


def _discard_here(root: Path, run_id: uuid.UUID, key: tuple[int, int, int]) -> bool:
    """Whether this server could do it: a store may be another user's, or its drive may fail."""
    try:
        FolderStore(root).discard(run_id, *key)
    except (DdlpError, OSError) as error:
        log.info("%s is left to the store's device: %s", batch_name(run_id, *key), error)
        return False
    return True


def remove_run(board: Board, run_id: uuid.UUID) -> None:
    """Forget a run that is over; devices that are out of reach find that out by asking."""
    for store in _stores(board):
        store.remove_run(run_id)


def sweep(board: Board, over: Sequence[uuid.UUID]) -> None:
    """Forget what a crash left of runs that are over; what is not known is left alone."""
    for store in _stores(board):
        there = {folder.name for folder in store.root.glob(f"{RUN_PREFIX}*")}
        for run_id in over:
            if run_folder(run_id) in there:
                store.remove_run(run_id)


def _tell(device: LiveDevice, run_id: uuid.UUID, key: tuple[int, int, int]) -> None:
    """Have a device clear away what this machine may not see, whatever its paths look like."""
    epoch, index, token = key
    attempt = Attempt(run=run_id, epoch=epoch, index=index, token=token)
    device.discard = [*device.discard, attempt][-_MOST_TOLD:]


def _stores(board: Board) -> list[FolderStore]:
    roots = {device.folder for device in board.devices.values()}
    return [FolderStore(root) for root in sorted(root for root in roots if root is not None)]
