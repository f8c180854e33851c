"""Sums of what meters show: a counter that wraps or is reset, powers that are sampled, gaps.

What passed while nothing could be read, or before a reset, is not guessed: it is in neither the
sum nor the seconds, so that their quotient stays a power that was really drawn.
"""

HIGHEST_W = 2_000.0
"""More than any one package, memory or GPU draws: a counter that fell did not wrap if it would."""


class CounterTally:
    """What a counter of energy grew by, from reading to reading.

    Args:
        unit_j: joules of one step of the counter.
        wraps_at: the step after which it begins again at 0; None if it never does.
    """

    def __init__(self, unit_j: float, wraps_at: int | None = None) -> None:
        self._unit_j = unit_j
        self._wraps_at = wraps_at
        self._last: tuple[float, int] | None = None
        self._sum = 0
        self.covered_s = 0.0
        self._resets = 0
        self._gaps = 0

    @property
    def joules(self) -> float:
        """The sum so far."""
        return self._sum * self._unit_j

    @property
    def mishaps(self) -> str:
        """What the sum leaves out, in words to add to a method."""
        resets = f"; it was reset {self._resets} times, and what it lost then is not counted"
        return (resets if self._resets else "") + _gaps(self._gaps)

    def take(self, now_s: float, value: int) -> None:
        """Add what was counted since the last reading; after a reset that is not known."""
        if self._last is not None:
            before_s, before = self._last
            growth = self._growth(before, value, now_s - before_s)
            if growth is None:
                self._resets += 1
            else:
                self._sum += growth
                self.covered_s += now_s - before_s
        self._last = now_s, value

    def lose(self) -> None:
        """It could not be read: the next reading is a new beginning."""
        self._gaps += self._last is not None
        self._last = None

    def _growth(self, before: int, value: int, passed_s: float) -> int | None:
        """None where it fell although it cannot have wrapped."""
        if value >= before:
            return value - before
        if self._wraps_at is None:
            return None
        wrapped = max(0, self._wraps_at - before) + value
        return wrapped if wrapped * self._unit_j <= HIGHEST_W * passed_s else None


class PowerTally:
    """What sampled powers come to; between two of them the power is taken to change evenly."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None
        self.joules = 0.0
        self.covered_s = 0.0
        self._gaps = 0

    @property
    def mishaps(self) -> str:
        """What the sum leaves out, in words to add to a method."""
        return _gaps(self._gaps)

    def take(self, now_s: float, power_w: float) -> None:
        """Add what was drawn since the last sample."""
        if self._last is not None:
            before_s, before_w = self._last
            self.joules += (now_s - before_s) * (before_w + power_w) / 2
            self.covered_s += now_s - before_s
        self._last = now_s, power_w

    def lose(self) -> None:
        """It could not be read: the next sample is a new beginning."""
        self._gaps += self._last is not None
        self._last = None


def _gaps(gaps: int) -> str:
    return f"; in {gaps} gaps it could not be read, and they are not counted" if gaps else ""
