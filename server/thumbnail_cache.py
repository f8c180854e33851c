"""Thumbnails that were made, and why others were not, kept in a bounded piece of memory."""

import threading
from collections import OrderedDict

Made = bytes | str
"""A picture, or why there is none."""

_ENTRY_BYTES = 200
"""What an entry takes beside its picture, about."""


class ThumbnailCache:
    """Those that were asked for last, by index, version and sample."""

    def __init__(self, most_bytes: int = 16 << 20) -> None:
        self._most_bytes = most_bytes
        self._held_bytes = 0
        self._made: OrderedDict[tuple[str, str, int], Made] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str, int]) -> Made | None:
        """What is known of a sample's picture."""
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
            return found

    def put(self, key: tuple[str, str, int], made: Made) -> None:
        """Keep one; those that nobody asked for longest go."""
        with self._lock:
            known = self._made.pop(key, None)
            if known is not None:
                self._held_bytes -= _size(known)
            self._made[key] = made
            self._held_bytes += _size(made)
            while self._held_bytes > self._most_bytes:
                self._held_bytes -= _size(self._made.popitem(last=False)[1])


def _size(made: Made) -> int:
    return len(made) + _ENTRY_BYTES
