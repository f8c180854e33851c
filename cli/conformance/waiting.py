"""Waits for what happens elsewhere, with an end."""

import time
from collections.abc import Callable


def happens(what: Callable[[], bool], within_s: float, period_s: float = 0.1) -> bool:
    """Whether something happens in so many seconds."""
    deadline = time.monotonic() + within_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(period_s)
    return True
