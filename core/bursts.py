"""Says what happens to many batches at once in one line with their number, not in one line each."""

EVERY_S = 5.0
"""A burst is told of so often at most."""


class Burst:
    """Lines of one kind: the first is said at once, those that follow are counted."""

    def __init__(self, more: str, every_s: float = EVERY_S) -> None:
        self._more = more
        """Such as `{} batches are made again`."""
        self._every_s = every_s
        self._quiet_until: float | None = None
        self._count = 0
        self._last = ""

    def add(self, now: float, line: str) -> str | None:
        """Take a line; what is to be said now, if anything."""
        self._count, self._last = self._count + 1, line
        return self.due(now)

    def due(self, now: float, over: bool = False) -> str | None:
        """What is to be said of the lines that came meanwhile; `over`: nothing follows."""
        if not self._count or not (over or self._quiet_until is None or now >= self._quiet_until):
            return None
        alone = self._count == 1
        said = self._last if alone else f"{self._more.format(self._count)}; the last: {self._last}"
        self._count, self._quiet_until = 0, now + self._every_s
        return said
