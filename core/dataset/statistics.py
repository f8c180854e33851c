"""How the samples of an index are spread over classes and sizes, in one pass over its rows.

Figures are counted in bins whose edges are round numbers, so that nothing but the counts is kept:
ten million samples take no more memory than a thousand.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ddlp.core.dataset.index import DatasetIndex
from ddlp.core.messages.statistics import (
    ClassCount,
    DatasetStatistics,
    HistogramBin,
    HistogramInfo,
)

Numbers = npt.NDArray[np.int64]

_CHUNK = 1 << 17
_STEPS = (10, 15, 20, 30, 50, 70)
_EDGES = np.asarray(
    [0, *range(1, 10), *(step * 10**power for power in range(17) for step in _STEPS)],
    dtype=np.int64,
)
_ALL_CLASSES = 30
"""Up to so many classes are listed one by one."""
_FEWEST = 10


class Spread:
    """Counts of a figure while it is collected."""

    def __init__(self) -> None:
        self._counts = np.zeros(len(_EDGES), dtype=np.int64)
        self._sum = self._number = self._largest = 0
        self._smallest: int | None = None

    def add(self, values: Numbers) -> None:
        """Count some more; none is below 0."""
        if not len(values):
            return
        places = np.searchsorted(_EDGES, values, side="right") - 1
        self._counts += np.bincount(places, minlength=len(_EDGES))
        lowest = int(values.min())
        self._smallest = lowest if self._smallest is None else min(lowest, self._smallest)
        self._largest = max(self._largest, int(values.max()))
        self._sum += int(values.sum())
        self._number += len(values)

    def histogram(self) -> HistogramInfo:
        """What was counted, from the first bin that holds something to the last."""
        held = np.flatnonzero(self._counts)
        bins = [
            HistogramBin(
                start=int(_EDGES[place]),
                end=int(_EDGES[min(place + 1, len(_EDGES) - 1)]),
                count=int(self._counts[place]),
            )
            for place in (range(held[0], held[-1] + 1) if len(held) else ())
        ]
        return HistogramInfo(
            smallest=self._smallest or 0,
            largest=self._largest,
            mean=self._sum / max(1, self._number),
            bins=bins,
        )


def statistics(index: DatasetIndex) -> DatasetStatistics:
    """Look at all samples of an index."""
    counts = np.zeros(len(index.classes), dtype=np.int64)
    encoded, short_side, pixels = Spread(), Spread(), Spread()
    for samples in _chunks(index.samples):
        heads = index.heads(samples)
        counts += np.bincount(index.labels(samples), minlength=len(counts))
        encoded.add(heads.nbytes)
        short_side.add(np.minimum(heads.width, heads.height))
        pixels.add(heads.width * heads.height)
    index.relax()
    per_class = Spread()
    per_class.add(counts)
    largest, smallest = _ends(index, counts)
    filled = counts[counts > 0]
    return DatasetStatistics(
        version=index.version,
        samples=index.samples,
        classes=len(counts),
        empty_classes=len(counts) - len(filled),
        imbalance=float(filled.max() / filled.min()) if len(filled) > 1 else None,
        largest_classes=largest,
        smallest_classes=smallest,
        class_samples=per_class.histogram(),
        encoded_bytes=encoded.histogram(),
        short_side=short_side.histogram(),
        pixels=pixels.histogram(),
    )


def _chunks(samples: int) -> Iterator[Numbers]:
    for start in range(0, samples, _CHUNK):
        yield np.arange(start, min(samples, start + _CHUNK), dtype=np.int64)


def _ends(index: DatasetIndex, counts: Numbers) -> tuple[list[ClassCount], list[ClassCount]]:
    """The classes with the most samples and those with the fewest; equal ones by their number."""
    order = np.argsort(-counts, kind="stable")
    if len(order) <= _ALL_CLASSES:
        first, last = order, order[:0]
    else:
        first, last = order[: _ALL_CLASSES - _FEWEST], order[-_FEWEST:]

    def listed(labels: Numbers) -> list[ClassCount]:
        return [
            ClassCount(label=int(label), name=index.classes[label], samples=int(counts[label]))
            for label in labels
        ]

    return listed(first), listed(last)
