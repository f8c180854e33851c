"""Datasets: encoded samples and labels at a place, with an immutable, memory-mapped index."""

from ddlp.core.dataset.index import DatasetIndex, Heads, Rejected
from ddlp.core.dataset.progress import ScanOptions, ScanProgress
from ddlp.core.dataset.scan import scan
from ddlp.core.dataset.writer import IndexSummary, delete_index, move_index

__all__ = [
    "DatasetIndex",
    "Heads",
    "IndexSummary",
    "Rejected",
    "ScanOptions",
    "ScanProgress",
    "delete_index",
    "move_index",
    "scan",
]
