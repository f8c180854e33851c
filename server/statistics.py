"""Statistics of datasets, computed once a version and kept for the few that are looked at."""

import threading
from collections import OrderedDict
from pathlib import Path

from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.statistics import statistics
from ddlp.core.messages.statistics import DatasetStatistics
from ddlp.server.models import Dataset

_KEPT = 32

_known: "OrderedDict[tuple[str, str], DatasetStatistics]" = OrderedDict()
_lock = threading.Lock()
_computing = threading.Lock()


def known(row: Dataset) -> DatasetStatistics | None:
    """The statistics of a dataset, if they were computed already."""
    key = (row.index_path, row.version)
    with _lock:
        found = _known.get(key)
        if found is not None:
            _known.move_to_end(key)
        return found


def of(row: Dataset) -> DatasetStatistics:
    """The statistics of a dataset; to be called where nobody else is held up."""
    # One at a time: whoever asks for the same meanwhile finds it done.
    with _computing:
        found = known(row)
        if found is None:
            found = statistics(DatasetIndex(Path(row.index_path)))
            with _lock:
                _known[row.index_path, row.version] = found
                while len(_known) > _KEPT:
                    _known.popitem(last=False)
        return found
