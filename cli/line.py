"""One line about how far something is: written over on a terminal, said now and then elsewhere."""

import sys
import time
from typing import Self

LINE_EVERY_S = 10.0


class Line:
    """What is said while something is under way."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._said_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def show(self, text: str) -> None:
        """Say how far it is."""
        if self._terminal:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._said_at >= LINE_EVERY_S:
            self._said_at = time.monotonic()
            print(text, file=sys.stderr, flush=True)
