"""Batch stores: where finished batches lie, whole or absent."""

from ddlp.core.store.address import StoreAddress, path_of
from ddlp.core.store.base import BatchStore, Room, StoredBatch
from ddlp.core.store.folder import FolderStore, release
from ddlp.core.store.names import RUN_PREFIX, batch_name, is_batch_name, run_folder
from ddlp.core.store.opening import StoreOptions, open_store
from ddlp.core.store.reading import check_expected, read_batch
from ddlp.core.store.room import store_limit

__all__ = [
    "RUN_PREFIX",
    "BatchStore",
    "FolderStore",
    "Room",
    "StoreAddress",
    "StoreOptions",
    "StoredBatch",
    "batch_name",
    "check_expected",
    "is_batch_name",
    "open_store",
    "path_of",
    "read_batch",
    "release",
    "run_folder",
    "store_limit",
]
