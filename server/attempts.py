"""Counts keys that were shown in vain, by address: whoever guesses is refused unheard."""

import ipaddress
import threading
import time
from collections.abc import Callable

WINDOW_S = 60.0
_MOST_ADDRESSES = 4096
_SITE_BITS = 64
"""Of an address of version 6: the rest is for one's own choosing."""


class Attempts:
    """What each address has tried within a minute; the same key again counts once."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._failed: dict[str, dict[str, float]] = {}
        self._lock = threading.Lock()

    def known(self, address: str, digest: str) -> bool:
        """Whether this key was shown in vain just now, and need not be looked for again."""
        with self._lock:
            return digest in self._recent(_site(address))

    def wait_s(self, address: str) -> float:
        """How long an address has to wait before another key of it is looked at."""
        with self._lock:
            recent = self._recent(_site(address))
            if len(recent) < self._most:
                return 0.0
            return max(0.0, min(recent.values()) + WINDOW_S - self._clock())

    def note(self, address: str, digest: str) -> None:
        """A key of an address is not known."""
        with self._lock:
            site = _site(address)
            recent = self._recent(site)
            recent[digest] = self._clock()
            self._failed.pop(site, None)
            while len(self._failed) >= _MOST_ADDRESSES:
                self._failed.pop(next(iter(self._failed)))
            self._failed[site] = recent

    def _recent(self, site: str) -> dict[str, float]:
        since = self._clock() - WINDOW_S
        return {key: at for key, at in self._failed.get(site, {}).items() if at > since}


def _site(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    return str(ipaddress.ip_network((found, _SITE_BITS), strict=False))
