"""Counts what was read by which path, and why by that one."""

import threading
from collections import Counter

from ddlp.core.messages import ReadInfo
from ddlp.core.types import ReadPath

Way = tuple[ReadPath, str]
"""A path and the reason for it."""


_MOST_TOLD = 64


class ReadCounts:
    """Sums that grow in the thread that reads, and are looked at from any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: Counter[Way] = Counter()
        self._bytes: Counter[Way] = Counter()
        self._told: dict[Way, tuple[int, int]] = {}

    def add(self, way: Way, nbytes: int) -> bool:
        """Count a batch; says whether it is the first one by this way."""
        with self._lock:
            self._batches[way] += 1
            self._bytes[way] += nbytes
            return self._batches[way] == 1

    def totals(self) -> list[ReadInfo]:
        """All of it, the most bytes first."""
        with self._lock:
            ways = [_info(way, self._batches[way], nbytes) for way, nbytes in self._bytes.items()]
        return sorted(ways, key=lambda way: -way.bytes)

    def take(self) -> list[ReadInfo]:
        """What came since the last call, and fits a message."""
        with self._lock:
            news: list[ReadInfo] = []
            for way, nbytes in self._bytes.items():
                if len(news) == _MOST_TOLD:
                    break
                batches = self._batches[way]
                was_batches, was_bytes = self._told.get(way, (0, 0))
                if batches > was_batches:
                    news.append(_info(way, batches - was_batches, nbytes - was_bytes))
                self._told[way] = batches, nbytes
        return news


def _info(way: Way, batches: int, nbytes: int) -> ReadInfo:
    path, reason = way
    return ReadInfo(path=path, reason=reason[:500], batches=batches, bytes=nbytes)
