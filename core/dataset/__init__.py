"""Datasets: encoded samples and labels at a place, with an immutable index."""

from ddlp.core.dataset.folder import FolderScan, scan_folder
from ddlp.core.dataset.index import DatasetIndex, IndexSummary, write_index

__all__ = ["DatasetIndex", "FolderScan", "IndexSummary", "scan_folder", "write_index"]
